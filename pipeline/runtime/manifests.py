"""The one reader of manifests: what a stage promises there is checked before anybody uses it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from pike_mixing.errors import InputError
from pike_mixing.limits import Limits, NonNegativeFloat, NonNegativeInt, PositiveInt
from pipeline import settings
from pipeline.runtime import atomic_files
from pipeline.runtime.validation import validate


def _mapping(keys: Mapping[str, Any]) -> Any:
    """A type: mappings with these keys; one that ends with `?` may be missing, others may be."""
    hints = {k.removesuffix("?"): NotRequired[t] if k[-1] == "?" else t for k, t in keys.items()}
    return TypedDict("Part", hints)  # type: ignore[operator]


Size = NonNegativeInt
Nats = NonNegativeFloat | None
WholeNumber = Annotated[str, Limits(pattern=r"\d+", means="a whole number")]


class FileRecord(TypedDict):
    """A file that a stage has written."""

    bytes: Size
    sha256: str


class Shard(TypedDict):
    """A file of a corpus's tokens."""

    file: str
    tokens: Size
    sha256: str


STANDARD: dict[str, Any] = {
    "stage": str,
    "settings": dict[str, Any],
    "inputs": dict[str, str],
    "given": dict[str, str],
    "files": dict[str, FileRecord],
    "code": _mapping({"fingerprint": str, "commit": str | None, "loaded": dict[str, str]}),
    "versions": dict[str, str],
}
_SPLIT = {
    "tokens": PositiveInt,
    "shards": list[Shard],
    "documents": PositiveInt,
    "bytes": Size,
    "characters?": Size,
    "pieces?": Size,
    "unknown_tokens?": Size,
    "entropy_nats?": NonNegativeFloat,
    "lengths?": dict[WholeNumber, Size],
}
SPLIT = _mapping(_SPLIT)
MAY_BE_EMPTY = _mapping(_SPLIT | {"tokens": Size, "documents": Size})
MEASURED = _mapping({key.removesuffix("?"): kind for key, kind in _SPLIT.items()})
"""A split of a corpus as it is written since its text is measured."""
_EVALUATED = {"run": str, "steps": list[Size]}
_FACTS: dict[str, dict[str, Any]] = {
    "download": {
        "licence": str,
        "revision": str | None,
        "documents": Size,
        "bytes": Size,
        "skipped": dict[str, Size],
        "entropy_nats_per_character": Nats,
    },
    "tokenizer": {"vocabulary": PositiveInt},
    "pack": {
        "format": Size,
        "dtype": Literal["uint16", "uint32"],
        "fingerprint": str,
        "tokenizer": _mapping({"sha256": str, "vocabulary": PositiveInt, "eos": Size}),
        "splits": _mapping({"train": SPLIT, "validation": SPLIT, "search": MAY_BE_EMPTY}),
        "source": str,
        "licence": str,
        "revision?": str | None,
        **dict.fromkeys(("uniform_nats?", "unigram_nats?", "floor_nats?"), Nats),
    },
    "fetch": {"task": str},
    "pretrain": {
        "settings": _mapping(
            {
                **dict.fromkeys(("scenario", "model_name", "method_name"), str),
                "seed": Size,
                "domains": list[str],
                "training": _mapping({"steps": Size}),
                "method": dict[str, Any],
            }
        ),
        "run": str,
        "domains": list[str],
        "steps": Size,
        "tokens?": Size,
        "parameters?": Size,
        "checkpoints": list[Size],
        "weights_sha256": str,
        "data_fingerprint?": str,
        "device?": str,
        "wall_seconds?": NonNegativeFloat,
        "tokens_per_second?": NonNegativeFloat,
        "resumes?": Size,
    },
    "mixture": {"weights_by_domain": dict[str, NonNegativeFloat], "chosen?": dict[str, Any]},
    "evaluate": _EVALUATED,
    "probe": _EVALUATED,
    **{stage: {} for stage in ("theory", "database", "table", "figure", "report", "domains")},
}
STAGES = {stage: _mapping({**STANDARD, **facts}) for stage, facts in _FACTS.items()}
"""What the manifest of each stage holds, of what is read of it."""
OF_ARCHIVE = {"reads", "report", "files"}
"""What that of `pike record` names."""

CHECKPOINT = _mapping(
    {
        "format": Size,
        "step": Size,
        "identity": Any,
        "model": dict[str, Any],
        "vocabulary": PositiveInt,
        "sha256": dict[str, str],
    }
)


def read(path: Path, stage: str, remedy: str = "make it anew") -> dict[str, Any]:
    """The manifest of a stage's work.

    Args:
        path: Its place.
        stage: The stage that wrote it.
        remedy: What to do when it is not whole, for messages.

    Raises:
        InputError: it is missing, is of another stage, or lacks something: all that it lacks.
    """
    result = atomic_files.read_json(path)
    if not isinstance(result, dict) or result.get("stage") != stage:
        raise InputError(f"{path} is not the manifest of the stage {stage!r}: {remedy}")
    require(result, STAGES[stage], path, remedy)
    if stage == "pretrain":
        _refuse_contradiction(result, path, remedy)
    return result


def _refuse_contradiction(manifest: Mapping[str, Any], path: Path, remedy: str) -> None:
    """Stops at a run whose manifest says something else than its settings."""
    own = manifest["settings"]
    name = f"{own['scenario']}/{own['model_name']}/{own['method_name']}/seed{own['seed']}"
    expected = {"run": name, "domains": own["domains"], "steps": own["training"]["steps"]}
    for key, value in expected.items():
        if manifest[key] != value:
            raise InputError(
                f"{path} says {key} {manifest[key]!r}, but its settings say {value!r}: {remedy}"
            )
    kept = manifest["checkpoints"]
    if kept != sorted(set(kept)) or kept[-1:] != [manifest["steps"]]:
        raise InputError(
            f"{path} lists the checkpoints {kept}, which do not end with the run's last step "
            f"{manifest['steps']} in order: {remedy}"
        )


def stage_of(path: Path) -> str | None:
    """Which stage wrote a manifest; None of what is no manifest of a stage.

    Raises:
        InputError: the file is not JSON.
    """
    result = atomic_files.read_json(path)
    stage = result.get("stage") if isinstance(result, dict) else None
    return stage if isinstance(stage, str) else None


def require(content: Any, kind: Any, path: Path, remedy: str) -> None:
    """Stops at a file's content that is not of a type.

    Args:
        content: The content.
        kind: The type.
        path: The file, for messages.
        remedy: What to do, for messages.

    Raises:
        InputError: every key that is missing or of another type, and what to do.
    """
    try:
        validate(kind, content, "", together=False, extra="ignore")
    except InputError as error:
        told = "; ".join(line.lstrip(".: ") for line in str(error).splitlines())
        raise InputError(f"{path} is not whole ({told}): {remedy}") from None


def of_run(folder: Path) -> tuple[dict[str, Any], settings.Run]:
    """The manifest of a finished run, and the run's settings.

    Raises:
        InputError: the run is not finished, or its manifest is not whole or contradicts itself.
    """
    path = folder / atomic_files.MANIFEST
    result = read(path, "pretrain", "train the run again")
    last = folder / "checkpoints" / f"step{result['steps']}" / atomic_files.MANIFEST
    trained = atomic_files.read_json(last) if last.is_file() else None
    identity = trained.get("identity") if isinstance(trained, dict) else None
    if isinstance(identity, dict) and identity.get("run") != result["settings"]:
        raise InputError(f"{path} is not of the run whose checkpoints lie there: train it again")
    return result, validate(settings.Run, result["settings"], f"{path}: settings")


def of_checkpoint(folder: Path) -> dict[str, Any]:
    """The manifest of a checkpoint `step{n}`, which is of that step.

    Raises:
        InputError: it is missing, not whole, or of another step.
    """
    path, remedy = folder / atomic_files.MANIFEST, f"delete {folder} and train again"
    result: dict[str, Any] = atomic_files.read_json(path)
    require(result, CHECKPOINT, path, remedy)
    if re.fullmatch(r"step\d+", folder.name) and folder.name != f"step{result['step']}":
        raise InputError(f"{path} says step {result['step']}, but lies in {folder.name}: {remedy}")
    return result
