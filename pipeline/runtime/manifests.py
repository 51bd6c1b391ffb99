"""The one reader of manifests: what a stage promises there is checked before anybody uses it."""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pike_mixing.settings import parse
from pipeline import settings
from pipeline.runtime import atomic_files

EACH = "*"
"""Stands for every key of a mapping; a key that ends with `?` may be missing."""

NUMBERED = "#"
"""Stands for every key of a mapping, and each is a whole number."""

POSITIVE = "positive"
"""The shape of a whole number from 1 on; those of type int begin at 0."""

Shape = Any
"""A type, a tuple of types, a set of values, a mapping of shapes by key, a list of one shape.
Numbers are from 0 on, but where anything may stand: object."""

STANDARD: dict[str, Shape] = {
    "stage": str,
    "settings": {},
    "inputs": {EACH: str},
    "given": {EACH: str},
    "files": {EACH: {"bytes": int, "sha256": str}},
    "code": {"fingerprint": str, "commit": (str, type(None)), "loaded": {EACH: str}},
    "versions": {EACH: str},
}
_SPLIT: dict[str, Shape] = {
    "tokens": POSITIVE,
    "shards": [{"file": str, "tokens": int, "sha256": str}],
    "documents": POSITIVE,
    "bytes": int,
    "characters?": int,
    "pieces?": int,
    "unknown_tokens?": int,
    "entropy_nats?": (int, float),
    "lengths?": {NUMBERED: int},
}
MEASURED = {key.removesuffix("?"): shape for key, shape in _SPLIT.items()}
"""A split of a corpus as it is written since its text is measured."""
FACTS: dict[str, dict[str, Shape]] = {
    "download": {
        "licence": str,
        "revision": (str, type(None)),
        "documents": int,
        "bytes": int,
        "skipped": {EACH: int},
        "entropy_nats_per_character": (int, float, type(None)),
    },
    "tokenizer": {"vocabulary": POSITIVE},
    "pack": {
        "format": int,
        "dtype": frozenset({"uint16", "uint32"}),
        "fingerprint": str,
        "tokenizer": {"sha256": str, "vocabulary": POSITIVE, "eos": int},
        "splits": {"train": _SPLIT, "validation": _SPLIT},
        "source": str,
        "licence": str,
        "revision?": (str, type(None)),
        **{f"{name}_nats?": (int, float, type(None)) for name in ("uniform", "unigram", "floor")},
    },
    "fetch": {"task": str},
    "pretrain": {
        "settings": {
            **dict.fromkeys(("scenario", "model_name", "method_name"), str),
            "seed": int,
            "domains": [str],
            "training": {"steps": int},
            "method": {},
        },
        "run": str,
        "domains": [str],
        "steps": int,
        "tokens?": int,
        "parameters?": int,
        "checkpoints": [int],
        "weights_sha256": str,
        "data_fingerprint?": str,
        "device?": str,
        "wall_seconds?": (int, float),
        "tokens_per_second?": (int, float),
        "resumes?": int,
    },
    "mixture": {"weights_by_domain": {EACH: (int, float)}, "chosen?": {EACH: object}},
    "evaluate": {"run": str, "steps": [int]},
    "probe": {"run": str, "steps": [int]},
    **{stage: {} for stage in ("theory", "database", "table", "figure", "report", "domains")},
}
"""What the manifest of each stage holds beside `STANDARD`, of what is read of it."""

CHECKPOINT: dict[str, Shape] = {
    "format?": int,
    "step": int,
    "identity": object,
    "model": {},
    "vocabulary": POSITIVE,
    "sha256": {EACH: str},
}


def read(path: Path, stage: str, remedy: str = "make it anew") -> dict[str, Any]:
    """The manifest of a stage's work.

    Args:
        path: Its place.
        stage: The stage that wrote it.
        remedy: What to do when it is not whole, for messages.

    Raises:
        InputError: it is missing, is of another stage, or lacks something: all that it lacks.
    """
    found = atomic_files.read_json(path)
    if not isinstance(found, dict) or found.get("stage") != stage:
        raise InputError(f"{path} is not the manifest of the stage {stage!r}: {remedy}")
    require(found, {**STANDARD, **FACTS[stage]}, path, remedy)
    if stage == "pretrain":
        _refuse_contradiction(found, path, remedy)
    return found


def _refuse_contradiction(found: Mapping[str, Any], path: Path, remedy: str) -> None:
    """Stops at a run whose manifest says something else than its settings."""
    own = found["settings"]
    name = f"{own['scenario']}/{own['model_name']}/{own['method_name']}/seed{own['seed']}"
    expected = {"run": name, "domains": own["domains"], "steps": own["training"]["steps"]}
    for key, value in expected.items():
        if found[key] != value:
            raise InputError(
                f"{path} says {key} {found[key]!r}, but its settings say {value!r}: {remedy}"
            )
    kept = found["checkpoints"]
    if kept != sorted(set(kept)) or kept[-1:] != [found["steps"]]:
        raise InputError(
            f"{path} lists the checkpoints {kept}, which do not end with the run's last step "
            f"{found['steps']} in order: {remedy}"
        )


def stage_of(path: Path) -> str | None:
    """Which stage wrote a manifest; None of what is no manifest of a stage.

    Raises:
        InputError: the file is not JSON.
    """
    found = atomic_files.read_json(path)
    stage = found.get("stage") if isinstance(found, dict) else None
    return stage if isinstance(stage, str) else None


def require(found: Any, shape: Shape, path: Path, remedy: str) -> None:
    """Stops at a file's content that does not have a shape.

    Raises:
        InputError: every key that is missing or of another type, and what to do.
    """
    problems = list(_misfits(found, shape, ""))
    if problems:
        raise InputError(f"{path} is not whole ({'; '.join(problems)}): {remedy}")


def of_run(folder: Path) -> tuple[dict[str, Any], settings.Run]:
    """The manifest of a finished run, and the run's settings.

    Raises:
        InputError: the run is not finished, or its manifest is not whole or contradicts itself.
    """
    path = folder / atomic_files.MANIFEST
    found = read(path, "pretrain", "train the run again")
    last = folder / "checkpoints" / f"step{found['steps']}" / atomic_files.MANIFEST
    trained = atomic_files.read_json(last) if last.is_file() else None
    identity = trained.get("identity") if isinstance(trained, dict) else None
    if isinstance(identity, dict) and identity.get("run") != found["settings"]:
        raise InputError(f"{path} is not of the run whose checkpoints lie there: train it again")
    return found, parse(settings.Run, found["settings"], f"{path}: settings")


def of_checkpoint(folder: Path) -> dict[str, Any]:
    """The manifest of a checkpoint `step{n}`, which is of that step.

    Raises:
        InputError: it is missing, not whole, or of another step.
    """
    path, remedy = folder / atomic_files.MANIFEST, f"delete {folder} and train again"
    found: dict[str, Any] = atomic_files.read_json(path)
    require(found, CHECKPOINT, path, remedy)
    if re.fullmatch(r"step\d+", folder.name) and folder.name != f"step{found['step']}":
        raise InputError(f"{path} says step {found['step']}, but lies in {folder.name}: {remedy}")
    return found


def _misfits(value: Any, shape: Shape, name: str) -> Iterator[str]:
    if isinstance(shape, Mapping):
        fits = isinstance(value, Mapping)
        yield from _within(value, shape, name) if fits else [f"{name or 'it'} is no mapping"]
    elif isinstance(shape, list):
        listed = enumerate(value) if isinstance(value, list) else []
        yield from (p for n, one in listed for p in _misfits(one, shape[0], f"{name}[{n}]"))
        if not isinstance(value, list):
            yield f"{name or 'it'} is no list"
    elif not _fits(value, shape):
        yield f"{name} is {str(value)[:40]!r}"


def _within(value: Mapping[str, Any], shape: Mapping[str, Shape], name: str) -> Iterator[str]:
    within = f"{name}." if name else ""
    for key, inner in shape.items():
        plain = key.removesuffix("?")
        every = key in (EACH, NUMBERED)
        present = list(value) if every else [plain] if plain in value else []
        for one in present:
            yield from _misfits(value[one], inner, f"{within}{one}")
            if key == NUMBERED and not one.isdecimal():
                yield f"{within}{one} is no whole number"
        if not present and plain == key and not every:
            yield f"{within}{key} is missing"


def _fits(value: Any, shape: Shape) -> bool:
    if shape is object:
        return True
    if shape == POSITIVE:
        return isinstance(value, int) and not isinstance(value, bool) and value > 0
    if isinstance(shape, frozenset):
        return any(value == one for one in shape)
    if isinstance(value, bool):
        return shape is bool
    if isinstance(value, int | float) and not (math.isfinite(value) and value >= 0):
        return False
    return isinstance(value, shape)
