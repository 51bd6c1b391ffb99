"""`pike verify`: what of the files was changed, what is missing, what no manifest lists."""

import fnmatch
import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing.errors import InputError
from pipeline.data import shards
from pipeline.data.shards import Corpus
from pipeline.planning import manifest_places, outdated_work, output_root, stages
from pipeline.runtime import (
    atomic_files,
    checksums,
    made_from,
    manifests,
    output_formats,
    ownership,
)
from pipeline.runtime.progress import Progress

KINDS = {"download": "documents", "pack": "corpus", "fetch": "task", "pretrain": "run"}
KINDS |= {"evaluate": "evaluation"}
"""What stages make, where that is not called like them."""
ORDER = (*stages.STAGES,)
"""Stages in an order in which what is damaged can be made again."""
SUFFIXES = ("model", "json", "duckdb", "md", "csv", "tex", "svg", "png", "manifest.json")
"""Of the files that stages make beside each other."""
PLUMBING = re.compile(
    rf"(.*/)?((logs|settings)/.*|experiment\.json|README\.md|{re.escape(ownership.MARK)}"
    r"|(run|evaluation|probe|starts|lease|\.[^/]+\.sha256)\.json|log\.jsonl|article/index\.pdf)"
)
"""Files of an output root that no manifest lists: settings, logs, what a training goes on from."""
_ANEW = ", and the workflow writes it anew"
_LINES = 20
"""Folders that are told one by one; of more, the kinds are counted."""
_MANY = 100
"""Problems that are listed; more are counted."""


class _Piece(NamedTuple):
    """A piece of work: its manifest, and the files that this vouches for."""

    path: Path
    """Of the manifest."""
    stage: str
    kind: str
    content: dict[str, Any]
    files: list[checksums.ListedFile]
    remedy: str = ""

    def manifest_and_file_paths(self) -> set[Path]:
        return {Path(os.path.normpath(path)) for path in (self.path, *(f.path for f in self.files))}

    def input_paths(self) -> list[Path]:
        folder = self.path.parent
        return [Path(os.path.normpath(folder / name)) for name in self.content["inputs"]]


class _Verification:
    """The pieces of work below some folders, and what is wrong there."""

    def __init__(self, folders: Sequence[str | Path]) -> None:
        self.folders = [*map(Path, folders)]
        self.pieces: list[_Piece] = []
        self._broken: set[Path] = set()
        self._problems: dict[str, int] = {}
        for folder in self.folders:
            for path in _walk_files(folder):
                if not (stage := _stage_of_manifest_path(path, folder)):
                    continue
                try:
                    self.pieces.append(_read_piece(path, stage))
                except InputError as problem:
                    self._add_problem(str(problem), path, stage)
        self._plans = {
            folder: compared
            for folder in self.folders
            if (
                compared := outdated_work.compare_first_root_if_plannable(
                    folder, *folder.absolute().parents
                )
            )
        }
        self._planned = {
            Path(path).absolute()
            for compared in self._plans.values()
            for path in compared.expected_manifest_paths()
        }

    def _add_problem(self, problem: str, broken: Path | None = None, order_stage: str = "") -> None:
        """Adds a problem, and the place that is broken; those of no stage's work come first."""
        self._problems.setdefault(problem, ORDER.index(order_stage) if order_stage in ORDER else -1)
        self._broken |= {broken} if broken else set()

    def problems_in_mending_order(self) -> list[str]:
        """All that was found, in the order in which it can be mended."""
        return sorted(self._problems, key=self._problems.__getitem__)

    def check_hashes(self, workers: int | None) -> None:
        every = {file: piece.stage for piece in self.pieces for file in piece.files}
        total = round(sum(file.bytes for file in every) / 1e6)
        with Progress("verify", total=total, unit="MB") as progress:
            for file, problem in checksums.problem_of_each_file(
                checksums.content_problem, every, workers
            ):
                if problem:
                    self._add_problem(problem, file.path, every[file])
                progress.add(file.bytes / 1e6)

    def check_pieces(self) -> None:
        """Compares each piece with its place, and with what it was made from."""
        known = checksums.DigestCache(checksums.MEMORY)
        for piece in self.pieces:
            if piece.kind in ("checkpoint", "archive"):
                continue
            path, folder = piece.path, piece.path.parent
            if self._report_if_misplaced(piece):
                continue
            own = piece.manifest_and_file_paths()
            for mark, left in _files_not_in_made_by(own, piece.stage, folder).items():
                self._add_problem(
                    f"{mark} does not say that `pike {piece.stage}` made {left[0].name}, which it "
                    f"would not replace: {piece.remedy}",
                    order_stage=piece.stage,
                )
            for one in made_from.differences_from_today_if_finished(path, piece.stage, known):
                what, _, name = one.what.partition(".")
                place = Path(os.path.normpath(folder / name if what == "inputs" else name))
                # What is broken is told itself.
                if what != "files" and place not in self._broken:
                    problem = f"{path} was made from another {place}: {piece.remedy}"
                    self._add_problem(problem, order_stage=piece.stage)
            self._report_missing_inputs(piece)
            if piece.stage == "pack":
                self._report_unusable_corpus(piece)

    def _report_if_misplaced(self, piece: _Piece) -> bool:
        """Whether work lies where that of another name belongs, which becomes a problem."""
        content, path = piece.content, piece.path.absolute()
        name = {
            "pack": content.get("source"),
            "fetch": content.get("task"),
            "table": content["settings"].get("name"),
            "figure": content["settings"].get("name"),
            "pretrain": content.get("run"),
        }.get(piece.stage)
        if name is None or output_root.find_root_above(path.parent) is None:
            return False
        if re.search(rf"/{re.escape(name)}[/.]", str(path)):
            return False
        # Of a run all that lies there is another's.
        place = piece.path.parent if path.name == atomic_files.MANIFEST else piece.path
        remedy = f"{_delete_instruction(place)}, or put it elsewhere"
        if path in self._planned:
            remedy = _remake_instruction(piece.path, piece.stage)
        self._add_problem(
            f"{piece.path} is of {name!r}, not of {place}: {remedy}", place, piece.stage
        )
        return True

    def _report_missing_inputs(self, piece: _Piece) -> None:
        """Adds inputs, and manifests of kept checkpoints, that are gone."""
        folder = piece.path.parent
        kept = (f"checkpoints/step{n}" for n in piece.content.get("checkpoints", ()))
        there = [folder / one for one in kept if (folder / one).exists()]
        for place in (*piece.input_paths(), *(one / atomic_files.MANIFEST for one in there)):
            if not place.is_file():
                self._add_missing_file_problem(place)

    def _report_unusable_corpus(self, piece: _Piece) -> None:
        """Adds a corpus that cannot be opened, or is of another tokenizer than lies there."""
        # What is broken is told itself.
        if self._broken & {*piece.input_paths(), *piece.manifest_and_file_paths()}:
            return
        folder = piece.path.parent
        try:
            shards.refuse_replaced_tokenizer(folder, piece.content)
            for split in shards.SPLITS:
                Corpus.open(folder, split)
        except InputError as error:
            self._add_problem(str(error), order_stage="pack")

    def _add_missing_file_problem(self, path: Path) -> None:
        """Adds a manifest, or a tokenizer's model, that is not there."""
        if path not in self._broken:
            stage = _stage_of_manifest_path(path, path.parent) or "tokenizer"
            self._add_problem(f"{path} is missing: {_remake_instruction(path, stage)}", path, stage)

    def check_against_configuration(self) -> None:
        """Looks for what its plan makes and is missing, and for settings that are not of it."""
        for folder in self.folders:
            stamp = folder / "experiment.json"
            is_root = any((folder / name).is_dir() for name in ("runs", "data", "settings"))
            if is_root and os.path.lexists(stamp) and output_root.read_root(folder) is None:
                problem = f"{stamp} does not say what the folder was started with"
                self._add_problem(f"{problem}: {_delete_instruction(stamp)}{_ANEW}")
            top, compared = folder.absolute(), self._plans.get(folder)
            if compared is None:
                continue
            for path in map(Path, compared.expected_manifest_paths()):
                if path.absolute().is_relative_to(top) and not path.is_file():
                    self._add_missing_file_problem(path)
            found = compared.differences("database", "")
            if any(one.what.startswith("settings.") for one in found):
                continue  # The configuration was changed since the workflow ran.
            for name, values in compared.plan.settings_by_path().items():
                path = Path(name)
                is_there = path.absolute().is_relative_to(top) and os.path.lexists(path)
                if (
                    is_there
                    and self._broken.isdisjoint(path.parents)
                    and output_root.read_mapping_or_none(path) != values
                ):
                    problem = f"{path} has other settings than the configuration"
                    self._add_problem(f"{problem}: {_delete_instruction(path)}{_ANEW}")

    def check_unlisted_files(self) -> None:
        """Looks for files that no manifest lists; beside one that is broken nobody can tell."""
        untold = {path.parent for path in self._broken if atomic_files.MANIFEST in path.name}
        known = {path for piece in self.pieces for path in piece.manifest_and_file_paths()}
        for folder in self.folders:
            for path in _walk_files(folder):
                if PLUMBING.fullmatch(path.relative_to(folder).as_posix()):
                    continue
                if (
                    untold.isdisjoint(path.parents)
                    and self._broken.isdisjoint({path, *path.parents})
                    and Path(os.path.normpath(path)) not in known
                ):
                    self._add_problem(
                        f"{path} is foreign: no manifest lists it: delete it "
                        f"(`rm {shlex.quote(str(path))}`), or put it elsewhere"
                    )


def verify_results(
    folders: Sequence[str | Path], *, workers: int | None = None, format: str = "text"
) -> str:
    """Hashes every file that a manifest lists, and looks for what is missing and foreign.

    Args:
        folders: Folders: results, or any part of them.
        workers: Files hashed at once; absent: as many as there are processors.
        format: text, or json: a list with an object per manifest.

    Returns:
        What there is, when all is whole.

    Raises:
        InputError: nothing to verify; or everything that is changed, missing or foreign, each with
            the command that makes it again.
    """
    found, began = _Verification(folders), time.monotonic()
    if not found.pieces and not found.problems_in_mending_order():
        named = ", ".join(map(str, folders))
        raise InputError(f"{named}: no manifest is there: name a folder such as results")
    found.check_hashes(workers)
    found.check_pieces()
    found.check_against_configuration()
    found.check_unlisted_files()
    facts: list[dict[str, Any]] = [
        {
            "folder": str(one.path.parent),
            "kind": one.kind,
            "files": len(one.files),
            "bytes": sum(file.bytes for file in one.files),
        }
        for one in found.pieces
    ]
    if problems := found.problems_in_mending_order():
        raise InputError(_problems_text(problems, sum(f["files"] for f in facts), found.folders))
    seconds, size = max(time.monotonic() - began, 1e-9), sum(f["bytes"] for f in facts) / 1e6
    end = f"{size:,.0f} MB in {seconds:.1f} s: all is whole"
    text = "\n".join([*_summary_lines(facts), end])
    return output_formats.json_csv_or_text(format, facts, lambda: text)


def _walk_files(top: Path) -> Iterator[Path]:
    """Files in the order of their names, behind links too, each folder once."""
    seen = set[tuple[int, int]]()
    for folder, folders, names in os.walk(top, followlinks=True):
        facts = Path(folder).stat()
        if (facts.st_dev, facts.st_ino) in seen:
            folders.clear()
            continue
        seen.add((facts.st_dev, facts.st_ino))
        folders.sort()
        yield from (Path(folder, name) for name in sorted(names))


def _stage_of_manifest_path(path: Path, folder: Path) -> str | None:
    """The stage whose manifest has such a place; None of what is no manifest."""
    if PLUMBING.fullmatch(path.relative_to(folder).as_posix()):
        return None
    root = output_root.find_root_above(path.absolute().parent)
    # Without a root, as of a folder that was copied alone, any of its folders may be meant.
    place = path.absolute().relative_to(root.folder) if root else path.absolute()
    for rule, made in reversed(manifest_places.MADE.items()):
        pattern = made.manifest.format("*")
        if fnmatch.fnmatchcase(str(place), pattern if root else f"*/{pattern}"):
            return made.stage or rule
    return "database" if path.name.endswith(atomic_files.MANIFEST) else None


def _read_piece(path: Path, stage: str) -> _Piece:
    """What a manifest vouches for; an InputError, with what to do, where it is not whole."""
    again = _remake_instruction(path, stage)
    if other := atomic_files.kind_of_existing_non_file(path):
        raise InputError(f"{path} is {other}: {again}")
    try:
        content: Any = atomic_files.read_json(path)
    except InputError:
        raise InputError(f"{path} is not valid JSON: {again}") from None
    folder = path.parent
    if folder.parent.name == "checkpoints":
        try:
            content = manifests.read_checkpoint_manifest(folder)
        except InputError as error:
            raise InputError(f"{error}: {again}") from None
        sums = {folder / name: sha256 for name, sha256 in content["sha256"].items()}
        again = _remake_instruction(path, stage, [*sums])
        files = [
            checksums.ListedFile(file, file.stat().st_size if file.is_file() else 0, sha256, again)
            for file, sha256 in sums.items()
        ]
        return _Piece(path, stage, "checkpoint", content, files, again)
    if manifests.is_archive_manifest(content):
        content = manifests.read_archive_manifest(folder)
        files = checksums.files_as_listed(folder, content, "take the archive anew")
        return _Piece(path, stage, "archive", content, files, "")
    named = content.get("stage") if isinstance(content, dict) else None
    if named not in manifests.STAGES:
        raise InputError(
            f"{path} is no manifest of a stage: delete it (`rm {shlex.quote(str(path))}`), or put "
            "it elsewhere"
        )
    content = manifests.read_manifest(path, stage := str(named), again)
    again = _remake_instruction(path, stage, [folder / name for name in content["files"]])
    files = checksums.files_as_listed(folder, content, again)
    return _Piece(path, stage, KINDS.get(stage, stage), content, files, again)


def _remake_instruction(
    path: Path, stage: str, files_in_manifest: Sequence[Path] | None = None
) -> str:
    """What makes a piece of work anew: a command, where it is of an experiment.

    A stage replaces the files that bear its mark; whatever else is in their places goes first.

    Args:
        path: Its manifest, or that of a run's checkpoint.
        stage: Its stage.
        files_in_manifest: Those that it lists; absent: it is not whole, and all that may be of it
            counts.
    """
    folder = path.parent
    if output_root.find_root_above(folder.absolute()) is None:
        return f"{stage} it anew"
    has_own_folder = stage not in ownership.MAKE_FILES or stage == "report"
    files = files_in_manifest
    if files is None:
        names = [f"{path.name.partition('.')[0]}.{suffix}" for suffix in SUFFIXES]
        # A training replaces what lies in its folder, marked or not.
        is_marked = has_own_folder and stage != "pretrain"
        places = folder.rglob("*") if is_marked else (folder / name for name in names)
        files = [file for file in places if file.is_file() and file.name != ownership.MARK]
    several = [*files, path]
    away = [p for p in several if p.is_symlink() or atomic_files.kind_of_existing_non_file(p)]
    unmarked = _files_not_in_made_by(several, stage, folder)
    away += [file for left in unmarked.values() for file in left if file not in away]
    away += [mark for mark in unmarked if ownership.is_mark_place_blocked(mark)]
    if unmarked and has_own_folder:
        away = [folder]
    first = f"rm -rf {shlex.join(map(str, away))} && " if away else ""
    of_checkpoint = folder.parent.name == "checkpoints"
    made = path.parents[2] / atomic_files.MANIFEST if of_checkpoint else path
    command = output_root.command_to_make(made, force=made.is_file())
    return f"make it again with `{first}{command}`"


def _files_not_in_made_by(
    files: Iterable[Path], stage: str, folder: Path
) -> dict[Path, list[Path]]:
    """Files of an experiment that their stage would not replace, by the `.made-by` without them."""
    if stage == "pretrain" or output_root.find_root_above(folder.absolute()) is None:
        return {}
    return ownership.unmarked_files_by_mark([f for f in files if f.is_file()], stage, folder)


def _delete_instruction(place: Path | str) -> str:
    return f"delete it with `rm -r {shlex.quote(str(place))}`"


def _problems_text(problems: list[str], file_count: int, folders: Sequence[str | Path]) -> str:
    more = [f"... and {len(problems) - _MANY:,} more"] if len(problems) > _MANY else []
    roots = {
        above.folder
        for name in folders
        if (above := output_root.find_root_above(Path(name).absolute()))
    }
    after = [
        f"then make what stands on it with `{output_root.command_to_make_all(folder)}`"
        for folder in sorted(roots)
    ]
    count = f"{len(problems):,} problems in {file_count:,} files:"
    return "\n".join([count, *problems[:_MANY], *more, *after])


def _summary_lines(facts: list[dict[str, Any]]) -> list[str]:
    def size_text(of: list[dict[str, Any]]) -> str:
        files, held = (sum(fact[key] for fact in of) for key in ("files", "bytes"))
        return f"{files:,} files, {held / 1e6:,.1f} MB, whole"

    if len(facts) <= _LINES:
        return [f"{fact['folder']}: {fact['kind']}, {size_text([fact])}" for fact in facts]
    kinds = Counter(fact["kind"] for fact in facts)
    return [
        f"{number:,} of kind {kind}: {size_text([fact for fact in facts if fact['kind'] == kind])}"
        for kind, number in kinds.items()
    ]
