"""Finished work beside the plan: what would be made otherwise today, and has to be made again.

What work was made from stands in its manifest, and nowhere else: results that were copied, without
Snakemake's own memory (`.snakemake/`) or with other times, are compared like all others.

A stamp for each piece of work, a small file that is an input of its job, tells Snakemake: its time
is old where the work is what the plan would make, and new where it is not. All other inputs are
`ancient`. A stamp is written whenever jobs are looked for, by dry runs, too: it says nothing of an
earlier time, but that work which was found to differ, and has been touched since (`--touch`),
counts as made.
"""

import atexit
import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing.errors import InputError, refuse
from pipeline.planning import output_root, plan_hints, planner, rule_inputs, stages
from pipeline.planning.plan import Plan
from pipeline.planning.records import MADE
from pipeline.runtime import atomic_files, checksums, made_from, manifests

STAMPS = made_from.KEPT
"""In the folder where the workflow is started: a dry run writes nothing among the results."""
OLD_STAMP = 0
"""The time of a stamp of what stands, in nanoseconds."""


def stamp_path(manifest: str) -> str:
    """Where the stamp of the work with this manifest lies."""
    parts = Path(os.path.relpath(manifest)).parts
    return str(STAMPS.joinpath(*("up" if part == ".." else part for part in parts)))


def ensure_stamp(manifest: str) -> str:
    """The stamp of a piece of work, as it is: an old one where there was none."""
    if not Path(stamp_path(manifest)).exists():
        make_stamp_old(manifest)
    return stamp_path(manifest)


def make_stamp_old(manifest: str) -> None:
    """Says that work stands, or is not there."""
    stamp = Path(stamp_path(manifest))
    with contextlib.suppress(FileNotFoundError):
        if stamp.stat().st_mtime_ns == OLD_STAMP:
            return
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.touch()
    os.utime(stamp, ns=(OLD_STAMP, OLD_STAMP))


def make_stamp_new(manifest: str, differences: Sequence[made_from.RecordDifference]) -> None:
    """Says that finished work differs from the plan, from now on, unless it is said already."""
    if _has_stamped_differences(manifest, differences):
        return
    stamp, made = Path(stamp_path(manifest)), Path(manifest).stat().st_mtime_ns
    # Snakemake compares contents, too: the same difference at another time is another content.
    content = {**_stamp_content(manifest, differences), "since": time.time_ns()}
    atomic_files.write_json(stamp, content)
    if made >= stamp.stat().st_mtime_ns:
        # Another machine's clock was ahead.
        os.utime(stamp, ns=(made + 10**9, made + 10**9))


def is_touched_since_stamp(
    manifest: str, differences: Sequence[made_from.RecordDifference]
) -> bool:
    """Whether work was touched after it had been found to differ like this."""
    if not _has_stamped_differences(manifest, differences):
        return False
    return Path(manifest).stat().st_mtime_ns > Path(stamp_path(manifest)).stat().st_mtime_ns


def _has_stamped_differences(
    manifest: str, differences: Sequence[made_from.RecordDifference]
) -> bool:
    stamp = Path(stamp_path(manifest))
    if not stamp.is_file() or stamp.stat().st_mtime_ns == OLD_STAMP:
        return False
    try:
        said: Any = atomic_files.read_json(stamp)
    except InputError:
        return False
    wanted = _stamp_content(manifest, differences)
    return isinstance(said, dict) and {name: said.get(name) for name in wanted} == wanted


def _stamp_content(
    manifest: str, differences: Sequence[made_from.RecordDifference]
) -> dict[str, Any]:
    # One that was copied, or made anew, is another file: only what was touched is the same.
    return {"differs": [[*one] for one in differences], "manifest": Path(manifest).stat().st_ino}


RECORDED = ("settings.licence",)
"""Differences that change no text, no token and no number."""
STAND = ("tokenizer", "pack", "pretrain", "mixture", "evaluate", "probe")
"""Rules whose jobs look first whether their work stands (`restore_if_unchanged`)."""
MOST_TOLD = 4
"""Differences of one piece of work that a line names."""


class WorkDifference(NamedTuple):
    """A row of the view `stale`."""

    artifact: str
    reason: str
    recorded: str
    expected: str


class PlanComparison:
    """The finished work of a plan, compared with it; each piece is looked at once."""

    def __init__(
        self,
        plan: Plan,
        pythons: Mapping[str, str] | None = None,
        forced: Callable[[str, str], bool] = lambda *_: False,
    ) -> None:
        """Looks at nothing yet.

        Args:
            plan: The plan.
            pythons: By rule: the interpreter of its jobs, where it is not this one.
            forced: Of a rule and a manifest: whether it is made again whatever the manifest says.
        """
        self._plan, self._pythons, self._forced = plan, pythons or {}, forced
        self.inputs = rule_inputs.RuleInputs(plan)
        self._told = set[tuple[str, str]]()
        self._known = checksums.DigestCache(checksums.MEMORY)
        atexit.register(self._known.save)

    @functools.cache  # noqa: B019 - there is one of these in a process.
    def differences(self, rule: str, name: str) -> tuple[made_from.RecordDifference, ...]:
        """How one finished piece of work differs from the plan; nothing of what is not finished.

        `name` are the values of the rule's wildcards, joined by slashes.

        Raises:
            InputError: the plan has no such work, or a file cannot be read.
        """
        made, reads = MADE[rule], self.inputs.job_inputs(rule, name)
        settings = self._plan.recorded_settings(made.section, name)
        part = settings[made.part] if made.part else None
        stage = made.stage or rule
        foreign = stage == "pretrain" and bool(settings["model"].get("architecture"))
        python = self._pythons.get(rule)
        fingerprint, versions = stages.stage_code(stage, part, python, foreign=foreign)
        return tuple(
            made_from.compare_finished(
                Path(self._plan.manifest(rule, name)),
                stage,
                self._known,
                settings=settings,
                code=fingerprint,
                versions=versions,
                inputs=reads.paths(),
                given=reads.given,
            )
        )

    @functools.cache  # noqa: B019 - as above.
    def differs(self, rule: str, name: str) -> bool:
        """Whether finished work differs from the plan, and was not touched since that was found."""
        found = self.differences(rule, name)
        return bool(found) and not is_touched_since_stamp(self._plan.manifest(rule, name), found)

    @functools.cache  # noqa: B019 - as above.
    def is_outdated(self, rule: str, name: str) -> bool:
        """Whether a piece of work differs from the plan, or may, as any does that it stands on."""
        if self.differs(rule, name) or self._forced(rule, self._plan.manifest(rule, name)):
            return True
        return any(
            self.is_changing_input(path, rule)
            for path in self.inputs.job_inputs(rule, name).paths()
        )

    def update_stamp(self, rule: str, name: str) -> str:
        """The stamp of a piece of work, as new or old as the comparison says."""
        manifest = self._plan.manifest(rule, name)
        if found := self.differences(rule, name) or self._inputs_without_manifest(rule, name):
            make_stamp_new(manifest, found)
        else:
            make_stamp_old(manifest)
        return stamp_path(manifest)

    def _inputs_without_manifest(
        self, rule: str, name: str
    ) -> tuple[made_from.RecordDifference, ...]:
        """What finished work stands on that has lost its manifest alone.

        Snakemake makes no missing file for work that is there.
        """
        if not Path(self._plan.manifest(rule, name)).is_file():
            return ()
        lost = filter(self._has_lost_manifest, self.inputs.job_inputs(rule, name).paths())
        return tuple(made_from.RecordDifference(f"inputs.{path}", "whole", "not") for path in lost)

    @functools.cache  # noqa: B019 - as above.
    def _has_lost_manifest(self, path: str) -> bool:
        return path in self._plan.makers and _has_results_without_manifest(
            path, self._plan.makers[path][0]
        )

    def prepare_job(self, rule: str, name: str) -> None:
        """Leaves word for a job, before Snakemake deletes its outputs, how it is to begin.

        The manifest of work that does not differ itself is kept: where what it stands on comes out
        the same, the work stands. What the user forces is made from the start, whatever checkpoints
        lie there; stopped then, it goes on like any other.
        """
        place = Path(self._plan.manifest(rule, name))
        if self._forced(rule, str(place)):
            made_from.force_restart(place)
        elif rule in STAND and place.is_file() and not self.differences(rule, name):
            made_from.keep_manifest_copy(place)
        else:
            made_from.forget_manifest_copy(place)

    def reason_lines(self, rule: str, name: str) -> Iterator[str]:
        """A line for settings, code, versions or inputs that differ, of the first such work."""
        by_kind: dict[tuple[str, str], list[str]] = {}
        for one in self.differences(rule, name) if self.differs(rule, name) else ():
            by_kind.setdefault((rule, one.what.partition(".")[0]), []).append(str(one))
        for kind, several in by_kind.items():
            if kind not in self._told:
                self._told.add(kind)
                more = several[MOST_TOLD:]
                told = "; ".join([*several[:MOST_TOLD], *([f"{len(more)} more"] if more else [])])
                yield f"{MADE[rule].artifact.format(name)} is made again: {told}"
        forced = self._forced(rule, self._plan.manifest(rule, name))
        if rule in STAND and not (self.differences(rule, name) or forced or ("", "") in self._told):
            self._told.add(("", ""))
            yield (
                "tokenizers, corpora, trainings, mixtures, evaluations and probes behind what is "
                "made again stand where it comes out the same: such jobs may have nothing to do"
            )

    def is_changing_input(self, path: str, reader_rule: str) -> bool:
        """Whether what a rule uses of a file of a piece of work will, or may, be another.

        So it may where work has lost its manifest alone.
        """
        if path not in self._plan.makers:
            return False
        rule, name = self._plan.makers[path]
        if self._has_lost_manifest(path):
            return True
        if rule != "download" or reader_rule != "pack":
            stage = MADE[reader_rule].stage or reader_rule
            if stage not in manifests.SHOW_ALL:
                return self._may_change_output(rule, name)
        return self.is_outdated(rule, name)

    @functools.cache  # noqa: B019 - as above.
    def _may_change_output(self, rule: str, name: str) -> bool:
        """Whether a piece of work may come out otherwise, not what is recorded with it alone."""
        other = any(one.what not in RECORDED for one in self.differences(rule, name))
        if other and self.differs(rule, name):
            return True
        if self._forced(rule, self._plan.manifest(rule, name)):
            return True
        makers = (
            self._plan.makers[p]
            for p in self.inputs.job_inputs(rule, name).paths()
            if p in self._plan.makers
        )
        return any(self._may_change_output(*maker) for maker in makers)

    def missing_file_problems(self) -> list[str]:
        """The user's own files that are not there, and that are to be read.

        What was made of files, under the same settings, stands without them.
        """
        result, used = dict[str, None](), plan_hints.used_names(self._plan)
        for rule, name in self._plan.work:
            section = MADE[rule].section
            absent = [
                path
                for path in self.inputs.job_inputs(rule, name).given
                if not Path(path).is_file()
            ]
            if (
                not absent
                or name not in used.get(section, {name})
                or self._has_current_settings(rule, name)
            ):
                continue
            where = "packing.hygiene.decontaminate" if rule == "pack" else f"{section}.{name}"
            result |= {
                f"{self._plan.origin}: {where}: {_missing_file_text(path)}": None for path in absent
            }
        return [*result]

    def _has_current_settings(self, rule: str, name: str) -> bool:
        """Whether a piece of work was made under today's settings."""
        changed = {one.what.partition(".")[0] for one in self.differences(rule, name)}
        there = Path(self._plan.manifest(rule, name)).is_file()
        return there and not changed & {"settings", "manifest"}

    def refuse_missing_files(self) -> None:
        """Stops where files are missing: Snakemake would go on with what was made of others.

        Raises:
            InputError: all that are not there.
        """
        refuse(self.missing_file_problems())

    def manifest_paths(self) -> list[str]:
        """Where the manifests of the plan's work lie, or will, but of text that no run uses."""
        used = {name: plan_hints.used_names(self._plan)[name] for name in ("sources", "tokenizers")}
        return [
            self._plan.manifest(rule, name)
            for rule, name in self._plan.work
            if name in used.get(MADE[rule].section, {name})
        ]

    def settings_by_path(self) -> dict[str, Any]:
        """Path and content of the plan's settings files."""
        return self._plan.settings_by_path()

    def own_differences(self) -> Iterator[WorkDifference]:
        """All differences of the plan's finished work, without those that follow from others."""
        for rule, name in self._plan.work:
            artifact = MADE[rule].artifact.format(name)
            for one in self.differences(rule, name):
                yield WorkDifference(artifact, one.what, one.recorded, one.today)


def _has_results_without_manifest(manifest: str, rule: str) -> bool:
    """Whether work has lost its manifest alone: results stand without what is gone as a whole."""
    place = Path(manifest)
    if place.is_file():
        return False
    patterns = [f"{place.name.partition('.')[0]}.*"]
    if place.name == atomic_files.MANIFEST:
        # The workflow writes settings beside a run, whether or not it is there.
        patterns = ["*.parquet", "checkpoints/*"] if rule == "pretrain" else ["*"]
    return any(any(place.parent.glob(pattern)) for pattern in patterns)


def compare_results(*folders: Path) -> PlanComparison | None:
    """The comparison of results with the configuration that they were made by.

    The first folder that is an output root is taken. None where the configuration is not at hand,
    as with results that were copied alone: what is here under its name makes other results.
    """
    found = next((root for root in map(output_root.find_root, folders) if root), None)
    if not (found and found.files and all(file.is_file() for file in found.files)):
        return None
    plan, _ = planner.plan_of_workflow(found.files, found.options)
    if Path(plan.results).resolve() != found.folder.resolve():
        return None
    return PlanComparison(plan, found.pythons)


def _missing_file_text(path: str) -> str:
    if Path(path).is_dir():
        return f"{path} is a folder: name its files, as in {path.rstrip('/')}/**/*.txt"
    here = "" if Path(path).is_absolute() else f" (in {Path.cwd()})"
    return f"there is no file {path}{here}: put it there, or correct the path"
