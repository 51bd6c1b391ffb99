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
import functools
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.planning import output_root, plan_hints, planner, rule_inputs, stages
from pipeline.planning.manifest_places import MADE
from pipeline.planning.plan import Plan
from pipeline.runtime import atomic_files, checksums, made_from, manifests

STAMPS = made_from.JOB_NOTES
"""In the folder where the workflow is started: a dry run writes nothing among the results."""
OLD_STAMP = 0
"""The time of a stamp of what stands, in nanoseconds."""


class WorkStamp:
    """The stamp of the work with a manifest."""

    def __init__(self, manifest: str) -> None:
        self._manifest = Path(manifest)
        inside = os.path.relpath(manifest) if self._manifest.is_absolute() else manifest
        self.path = STAMPS / re.sub(r"(?<![^/])\.\.(?=/)", "up", inside)

    def get_or_create_path(self) -> str:
        """Makes it where there is none, old; returns its path."""
        if self._time() is None:
            self._touch_old()
        return str(self.path)

    def mark_unchanged(self) -> None:
        """Says that the work stands, or is not there."""
        if self._time() != OLD_STAMP:
            self._touch_old()

    def mark_different(self, differences: Sequence[made_from.RecordDifference]) -> None:
        """Says that finished work differs from the plan, from now on, unless it is said already."""
        if self._records_differences(differences):
            return
        made = self._manifest.stat().st_mtime_ns
        # Snakemake compares contents, too: the same difference at another time is another content.
        with atomic_files.atomic_write(self.path) as partial:
            partial.write_text(
                self._stamp_first_line(differences) + str(time.time_ns()), encoding="utf-8"
            )
        if made >= self.path.stat().st_mtime_ns:
            # Another machine's clock was ahead.
            os.utime(self.path, ns=(made + 10**9, made + 10**9))

    def is_work_touched_after(self, differences: Sequence[made_from.RecordDifference]) -> bool:
        """Whether the work was touched after it had been found to differ like this."""
        says = self._records_differences(differences)
        return says and self._manifest.stat().st_mtime_ns > self.path.stat().st_mtime_ns

    def _touch_old(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()
        os.utime(self.path, ns=(OLD_STAMP, OLD_STAMP))

    def _time(self) -> int | None:
        """Its time in nanoseconds; None where it is not there."""
        try:
            return self.path.stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def _records_differences(self, differences: Sequence[made_from.RecordDifference]) -> bool:
        if self._time() in (None, OLD_STAMP):
            return False
        return self.path.read_text(encoding="utf-8").startswith(self._stamp_first_line(differences))

    def _stamp_first_line(self, differences: Sequence[made_from.RecordDifference]) -> str:
        # Work that was copied, or made anew, is another file: only what was touched is the same.
        content = [differences, self._manifest.stat().st_ino]
        return atomic_files.canonical_json(content) + "\n"


HARMLESS_SETTINGS = ("settings.licence",)
"""Differences that change no text, no token and no number."""
KEPT_IF_UNCHANGED = ("tokenizer", "pack", "pretrain", "mixture", "evaluate", "probe")
"""Rules whose jobs look first whether their work stands (`restore_manifest_if_unchanged`)."""
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
        python_by_rule: Mapping[str, str] | None = None,
        is_forced: Callable[[str, str], bool] = lambda rule, name: False,
    ) -> None:
        """Looks at nothing yet.

        Args:
            plan: The plan.
            python_by_rule: The interpreter of its jobs, where it is not this one.
            is_forced: Whether a rule's work of a name is made again whatever its manifest says.
        """
        self.plan, self._pythons, self._is_forced = plan, python_by_rule or {}, is_forced
        self.inputs = rule_inputs.RuleInputs(plan)
        self._told = set[tuple[str, str]]()
        self._known = checksums.DigestCache(checksums.MEMORY)
        atexit.register(self._known.save)

    @functools.cache  # noqa: B019 - there is one of these in a process.
    def stamp(self, rule: str, name: str) -> WorkStamp:
        """The stamp of a piece of work."""
        return WorkStamp(self.plan.manifest_path(rule, name))

    @functools.cache  # noqa: B019 - as above.
    def differences(self, rule: str, name: str) -> tuple[made_from.RecordDifference, ...]:
        """How a finished piece of work differs from the plan; nothing of what is not finished."""
        manifest = Path(self.plan.manifest_path(rule, name))
        # Of most work of a new plan nothing is there: its settings are not worked out.
        if not manifest.is_file():
            return ()
        made, reads = MADE[rule], self.inputs.job_inputs(rule, name)
        settings = self.plan.settings_for_manifest(made.section, name)
        part = settings[made.part] if made.part else None
        stage = made.stage or rule
        uses_transformers = stage == "pretrain" and bool(settings["model"].get("architecture"))
        python = self._pythons.get(rule)
        fingerprint, versions = stages.stage_code(
            stage, part, python, uses_transformers=uses_transformers
        )
        return tuple(
            made_from.differences_from_today_if_finished(
                manifest,
                stage,
                self._known,
                settings=settings,
                code=fingerprint,
                versions=versions,
                inputs=reads.made_paths(),
                given=reads.given,
            )
        )

    @functools.cache  # noqa: B019 - as above.
    def is_different_and_untouched(self, rule: str, name: str) -> bool:
        """Whether finished work differs from the plan, and was not touched since that was found."""
        if not (found := self.differences(rule, name)):
            return False
        return not self.stamp(rule, name).is_work_touched_after(found)

    @functools.cache  # noqa: B019 - as above.
    def is_outdated(self, rule: str, name: str) -> bool:
        """Whether a piece of work differs from the plan, or may, as any does that it stands on."""
        reads = self.inputs.job_inputs(rule, name).made_paths()
        return (
            self.is_different_and_untouched(rule, name)
            or self._is_forced(rule, name)
            or any(self.is_changing_input(path, rule) for path in reads)
        )

    @functools.cache  # noqa: B019 - as above.
    def is_changing_input(self, path: str, reader_rule: str) -> bool:
        """Whether what a rule uses of a file of a piece of work will, or may, be another.

        So it may where work has lost its manifest alone.
        """
        if path not in self.plan.maker_by_manifest_or_tokenizer_path:
            return False
        maker = self.plan.maker_by_manifest_or_tokenizer_path[path]
        stage = MADE[reader_rule].stage or reader_rule
        if self._is_manifest_alone_lost(path):
            return True
        shows_all = stage in manifests.READ_WHOLE_MANIFESTS or (maker.rule, stage) == (
            "download",
            "pack",
        )
        return self.is_outdated(*maker) if shows_all else self._may_change_output(*maker)

    @functools.cache  # noqa: B019 - as above.
    def _may_change_output(self, rule: str, name: str) -> bool:
        """Whether a piece of work may come out otherwise, not what is recorded with it alone."""
        other = any(one.what not in HARMLESS_SETTINGS for one in self.differences(rule, name))
        makers = self.plan.maker_by_manifest_or_tokenizer_path
        reads = self.inputs.job_inputs(rule, name).made_paths()
        return (
            (other and self.is_different_and_untouched(rule, name))
            or self._is_forced(rule, name)
            or any(self._may_change_output(*makers[path]) for path in reads)
        )

    @functools.cache  # noqa: B019 - as above.
    def _is_manifest_alone_lost(self, path: str) -> bool:
        """Whether work has lost its manifest alone: results stand without what is gone whole."""
        place = Path(path)
        if place.is_file():
            return False
        patterns = [f"{place.name.partition('.')[0]}.*"]
        if place.name == atomic_files.MANIFEST:
            # The workflow writes settings beside a run, whether or not it is there.
            is_run = self.plan.maker_by_manifest_or_tokenizer_path[path].rule == "pretrain"
            patterns = ["*.parquet", "checkpoints/*"] if is_run else ["*"]
        return any(any(place.parent.glob(pattern)) for pattern in patterns)

    def update_stamp_and_get_path(self, rule: str, name: str) -> str:
        """Makes the stamp of a piece of work as new or old as the comparison says: its path."""
        manifest = self.plan.manifest_path(rule, name)
        stamp, found = self.stamp(rule, name), self.differences(rule, name)
        if not found and Path(manifest).is_file():
            # Snakemake makes no missing file for work that is there.
            reads = self.inputs.job_inputs(rule, name).made_paths()
            lost = filter(self._is_manifest_alone_lost, reads)
            found = tuple(made_from.RecordDifference(f"inputs.{p}", "whole", "not") for p in lost)
        if found:
            stamp.mark_different(found)
        else:
            stamp.mark_unchanged()
        return str(stamp.path)

    def tell_job_how_to_begin(self, rule: str, name: str) -> None:
        """Leaves word for a job, before Snakemake deletes its outputs, how it is to begin.

        The manifest of work that does not differ itself is kept: where what it stands on comes out
        the same, the work stands. What the user forces is made from the start, whatever checkpoints
        lie there; stopped then, it goes on like any other.
        """
        place = Path(self.plan.manifest_path(rule, name))
        if self._is_forced(rule, name):
            made_from.mark_for_restart(place)
        elif rule in KEPT_IF_UNCHANGED and place.is_file() and not self.differences(rule, name):
            made_from.keep_manifest_copy(place)
        else:
            made_from.forget_copy_and_restart_mark(place)

    def reason_lines_once_per_kind(self, rule: str, name: str) -> Iterator[str]:
        """A line for settings, code, versions or inputs that differ, of the first such work."""
        found, by_kind = self.differences(rule, name), dict[tuple[str, str], list[str]]()
        for one in found if self.is_different_and_untouched(rule, name) else ():
            by_kind.setdefault((rule, one.what.partition(".")[0]), []).append(str(one))
        for kind, several in by_kind.items():
            if kind not in self._told:
                self._told.add(kind)
                more = several[MOST_TOLD:]
                told = "; ".join([*several[:MOST_TOLD], *([f"{len(more)} more"] if more else [])])
                yield f"{MADE[rule].artifact.format(name)} is made again: {told}"
        may_stand = rule in KEPT_IF_UNCHANGED and not found and not self._is_forced(rule, name)
        if may_stand and ("", "") not in self._told:
            self._told.add(("", ""))
            yield (
                "jobs that read what is made again are listed, too: they end at once where it "
                "comes out the same, and their results stay"
            )

    def missing_needed_user_file_problems(self) -> list[str]:
        """The user's own files that are not there, and that are to be read.

        What was made of files, under the same settings, stands without them.
        """
        result, used = dict[str, None](), plan_hints.used_names(self.plan)
        for rule, name in self.plan.work_names:
            section, given = MADE[rule].section, self.inputs.job_inputs(rule, name).given
            absent = [path for path in given if not Path(path).is_file()]
            if not absent or name not in used.get(section, {name}):
                continue
            changed = {one.what.partition(".")[0] for one in self.differences(rule, name)}
            is_made = Path(self.plan.manifest_path(rule, name)).is_file()
            if is_made and not changed & {"settings", "manifest"}:
                continue
            where = "packing.hygiene.decontaminate" if rule == "pack" else f"{section}.{name}"
            place = f"{self.plan.origin}: {where}"
            result |= {f"{place}: {_missing_file_text(path)}": None for path in absent}
        return [*result]

    def expected_manifest_paths(self) -> list[str]:
        """Where the manifests of the plan's work lie, or will, but of text that no run uses."""
        used = {name: plan_hints.used_names(self.plan)[name] for name in ("sources", "tokenizers")}
        return [
            self.plan.manifest_path(rule, name)
            for rule, name in self.plan.work_names
            if name in used.get(MADE[rule].section, {name})
        ]

    def direct_differences(self) -> Iterator[WorkDifference]:
        """All differences of the plan's finished work, without those that follow from others."""
        for rule, name in self.plan.work_names:
            artifact = MADE[rule].artifact.format(name)
            for one in self.differences(rule, name):
                yield WorkDifference(artifact, one.what, one.recorded, one.today)


def compare_first_root_if_plannable(*possible_roots: Path) -> PlanComparison | None:
    """The comparison of results with the configuration that they were made by.

    The first folder that is an output root is taken. None where the configuration is not at hand,
    as with results that were copied alone: what is here under its name makes other results.
    """
    found = next((root for root in map(output_root.read_root, possible_roots) if root), None)
    if not (found and found.files and all(file.is_file() for file in found.files)):
        return None
    plan = planner.plan_config_files(found.files, found.options).plan
    if Path(plan.results).resolve() != found.folder.resolve():
        return None
    return PlanComparison(plan, found.pythons)


def _missing_file_text(path: str) -> str:
    if Path(path).is_dir():
        return f"{path} is a folder: name its files, as in {path.rstrip('/')}/**/*.txt"
    here = "" if Path(path).is_absolute() else f" (in {Path.cwd()})"
    return f"there is no file {path}{here}: put it there, or correct the path"
