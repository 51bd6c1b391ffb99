"""The one reader of manifests: what a stage promises there is checked before anybody uses it."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

from typing_extensions import TypedDict

from pike_mixing.errors import InputError, refuse
from pike_mixing.setting_limits import Limits, NonNegativeFloat, NonNegativeInt, PositiveInt
from pike_mixing.setting_messages import unknown_name_message
from pipeline import settings
from pipeline.runtime import atomic_files, validate_settings


def _typed_dict(keys: Mapping[str, Any]) -> Any:
    """A type: mappings with these keys; one that ends with `?` may be missing, others may be."""
    hints = {k.removesuffix("?"): NotRequired[t] if k[-1] == "?" else t for k, t in keys.items()}
    return TypedDict("Part", hints)  # type: ignore[operator]


Size = NonNegativeInt
Nats = NonNegativeFloat | None
WholeNumber = Annotated[str, Limits(pattern=r"\d+", means="a whole number")]


IS_SLUG = Limits(
    pattern="[a-z0-9][a-z0-9_-]{0,99}",
    means="a name of lower-case letters, digits, hyphens and underscores, 100 at most",
)
Slug = Annotated[str, IS_SLUG]
"""A name that becomes a part of a path."""


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
    "content?": dict[str, str],
    "given": dict[str, str],
    "files": dict[str, FileRecord],
    "code": _typed_dict({"fingerprint": str, "commit": str | None, "loaded": dict[str, str]}),
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
SPLIT = _typed_dict(_SPLIT)
MAY_BE_EMPTY = _typed_dict(_SPLIT | {"tokens": Size, "documents": Size})
MEASURED = _typed_dict({key.removesuffix("?"): kind for key, kind in _SPLIT.items()})
"""A split of a corpus as it is written since its text is measured."""
_EVALUATED = {"run": str, "steps": list[Size]}
RUN_SETTINGS = _typed_dict(
    {
        **dict.fromkeys(("scenario", "model_name", "method_name"), str),
        "seed": Size,
        "domains": list[str],
        "training": _typed_dict({"steps": Size}),
        "method": dict[str, Any],
    }
)
"""What is read of a run's settings where no run is trained."""
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
        "tokenizer": _typed_dict({"sha256": str, "vocabulary": PositiveInt, "eos": Size}),
        "splits": _typed_dict({"train": SPLIT, "validation": SPLIT, "search": MAY_BE_EMPTY}),
        "source": str,
        "licence": str,
        "revision?": str | None,
        **dict.fromkeys(("uniform_nats?", "unigram_nats?", "floor_nats?"), Nats),
    },
    "fetch": {"task": str},
    "pretrain": {
        "settings": RUN_SETTINGS,
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
    **{stage: {} for stage in ("theory", "database", "table", "figure", "article", "report")},
    "domains": {},
}
STAGES = {stage: _typed_dict({**STANDARD, **facts}) for stage, facts in _FACTS.items()}
"""What the manifest of each stage holds, of what is read of it."""
_DATABASE = Limits(
    pattern="pike|databases/[a-z0-9][a-z0-9-]{0,99}", means="a database: pike, or databases/NAME"
)
OUTPUTS = frozenset({"table", "figure"})
"""Kinds of results that an archive can restore, beside databases and the report."""
_OUTPUTS = dict[Slug, Annotated[str, _DATABASE]]
_RECORD = r"records/[a-z0-9_]{1,100}\.parquet"
_SETTINGS = r"settings/((databases|tables|figures)/)?[a-z0-9][a-z0-9-]{0,99}\.json"
_PLACE = Limits(pattern=f"{_RECORD}|{_SETTINGS}", means="a file of an archive")
ARCHIVE = _typed_dict(
    {
        "reads": _typed_dict(dict.fromkeys(OUTPUTS, _OUTPUTS)),
        "report": Annotated[str, _DATABASE],
        "files": dict[Annotated[str, _PLACE], FileRecord],
    }
)
"""That of `pike record`. Its names become paths, and somebody else may have written them."""
ARCHIVE_REMEDY = "take the archive anew from where it came"

CHECKPOINT = _typed_dict(
    {
        "format": Size,
        "step": Size,
        "identity": Any,
        "model": dict[str, Any],
        "vocabulary": PositiveInt,
        "sha256": dict[str, str],
    }
)


def read_manifest(path: Path, stage: str, remedy: str = "make it anew") -> dict[str, Any]:
    """The manifest of a stage's work; `remedy` is what to do where it lacks something."""
    result: Any = atomic_files.read_json(path)
    refuse_wrong_manifest(result, stage, path, remedy)
    return dict(result)


def refuse_wrong_manifest(content: Any, stage: str, path: Path | str, remedy: str) -> None:
    """Stops at what is no whole manifest of a stage; arguments and errors as of `read_manifest`."""
    if not isinstance(content, dict) or content.get("stage") != stage:
        raise InputError(f"{path} is not the manifest of the stage {stage!r}: {remedy}")
    require_type(content, STAGES[stage], path, remedy)
    if stage == "pretrain":
        _refuse_inconsistent_run(content, path, remedy)


def _refuse_inconsistent_run(manifest: Mapping[str, Any], path: Path | str, remedy: str) -> None:
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


READ_WHOLE_MANIFESTS = ("database", "table", "figure", "article", "report")
"""Stages that read all that a manifest says; others read what it vouches for."""
OF_MIXTURE = ("weights.parquet", "coefficients.parquet")
"""Records of a run that a mixture is found from, beside its checkpoints."""


def digest_of_used_manifest_parts_or_none(path: Path, reader: str) -> str | None:
    """Digest of what the stage `reader` uses of a manifest: where it is the same, so is its work.

    These are the files that it lists, and such facts as the reader uses: neither licences and
    revisions, which are recorded with them, nor code, times and places. None of what is no
    manifest of a stage or of a checkpoint, or of one that the stage reads whole.
    """
    if reader in READ_WHOLE_MANIFESTS or path.suffix != ".json":
        return None
    try:
        content = atomic_files.read_json(path)
    except InputError:
        # Whoever reads it says what is wrong.
        return None
    vouched = _part_if_not_read_whole(content, reader) if isinstance(content, dict) else None
    return None if vouched is None else atomic_files.json_digest(vouched)


def _part_if_not_read_whole(
    manifest: Mapping[str, Any], reader: str
) -> list[Any] | dict[str, Any] | None:
    """What another stage uses of a manifest; None of one that it reads whole."""
    # Of a damaged manifest something: whoever reads it says what is wrong.
    named = manifest.get("files")
    listed = named.items() if isinstance(named, dict) else ()
    files = {n: f.get("sha256") for n, f in listed if isinstance(f, dict)}

    def picked_manifest_values(*keys: str) -> dict[str, Any]:
        return {key: manifest.get(key) for key in keys}

    match manifest.get("stage"):
        case "download":
            # A corpus has these on record.
            recorded = ("licence", "revision", "skipped", "entropy_nats_per_character")
            return [files, picked_manifest_values(*recorded) if reader == "pack" else {}]
        case "pack":
            # The card is for people.
            return [
                {n: f for n, f in files.items() if n != "README.md"},
                picked_manifest_values("fingerprint"),
            ]
        case "pretrain":
            own = OF_MIXTURE if reader == "mixture" else ()
            read = {n: f for n, f in files.items() if "/" in n or n in own}
            return [read, picked_manifest_values("settings", "domains", "steps", "checkpoints")]
        case "mixture":
            return picked_manifest_values("weights_by_domain", "chosen")
        case "evaluate" | "fetch":
            return [files, picked_manifest_values("steps", "task")]
        case None if "identity" in manifest:
            sums = manifest.get("sha256")
            if reader != "mixture" and isinstance(sums, dict):
                # Only who finds mixtures reads the states of optimizers and methods.
                sums = sums.get("model.safetensors")
            return [picked_manifest_values("step", "model", "vocabulary"), sums]
    return None


def recorded_stage(content: Any) -> str | None:
    """Which stage wrote a manifest of such content; None of what is no manifest of a stage."""
    stage = content.get("stage") if isinstance(content, dict) else None
    return stage if isinstance(stage, str) else None


def require_type(content: Any, kind: Any, path: Path | str, remedy: str) -> None:
    """Stops at the content of the file `path` that is not of a type; `remedy` is what to do."""
    try:
        validate_settings.validate(kind, content, "", allow_contradictions=True, extra="ignore")
    except InputError as error:
        told = "; ".join(line.lstrip(".: ") for line in str(error).splitlines())
        raise InputError(f"{path} is not whole ({told}): {remedy}") from None


class FinishedRun(NamedTuple):
    """A run with its manifest."""

    manifest: dict[str, Any]
    settings: settings.Run


def read_run_manifest_and_settings(folder: Path) -> FinishedRun:
    """The manifest of a finished run, and the run's settings; one that is not whole is refused."""
    path = folder / atomic_files.MANIFEST
    result = read_manifest(path, "pretrain", "train the run again")
    last = folder / "checkpoints" / f"step{result['steps']}" / atomic_files.MANIFEST
    trained = atomic_files.read_json(last) if last.is_file() else None
    identity = trained.get("identity") if isinstance(trained, dict) else None
    if isinstance(identity, dict) and identity.get("run") != result["settings"]:
        raise InputError(f"{path} is not of the run whose checkpoints lie there: train it again")
    own = validate_settings.validate(settings.Run, result["settings"], f"{path}: settings")
    return FinishedRun(result, own)


def read_checkpoint_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a checkpoint `step{n}`; one of another step is refused."""
    path, remedy = folder / atomic_files.MANIFEST, f"delete {folder} and train again"
    result: dict[str, Any] = atomic_files.read_json(path)
    require_type(result, CHECKPOINT, path, remedy)
    if re.fullmatch(r"step\d+", folder.name) and folder.name != f"step{result['step']}":
        raise InputError(f"{path} says step {result['step']}, but lies in {folder.name}: {remedy}")
    return result


def is_archive_manifest(content: Any) -> bool:
    """Whether a file of JSON is meant as the manifest of an archive."""
    return isinstance(content, dict) and content.keys() >= {"reads", "report", "files"}


def read_archive_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of what `pike record` wrote; one that names what no archive holds is refused."""
    path = folder / atomic_files.MANIFEST
    refuse_link_on_way(path, folder)
    content: Any = atomic_files.read_json(path) if os.path.lexists(path) else None
    if not is_archive_manifest(content):
        raise InputError(f"{folder} is no archive: give what `pike record` or `pike crate` wrote")
    require_type(content, ARCHIVE, path, ARCHIVE_REMEDY)
    result: dict[str, Any] = content
    refuse(
        [
            unknown_name_message(one, OUTPUTS, f"{path}: reads")
            for one in result["reads"].keys() - OUTPUTS
        ]
    )
    for name in result["files"]:
        refuse_link_on_way(folder / name, folder)
    return result


def refuse_link_on_way(path: Path, from_folder: Path) -> None:
    """Stops at a link in the place of a file, or of a folder on the way to it from a folder."""
    for place in (path, *path.parents):
        if place == from_folder:
            return
        if place.is_symlink():
            raise InputError(
                f"{place} is a symbolic link, and none is followed out of {from_folder}: put the "
                "file or folder itself there"
            )
