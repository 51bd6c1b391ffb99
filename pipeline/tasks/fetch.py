"""`pike fetch`: the data sets of downstream tasks, by pinned id and revision.

    tasks/{task}/{split}.jsonl          every split that is asked, one record a line as stored
    tasks/{task}/demonstrations.jsonl   the curated demonstrations' records
    tasks/{task}/manifest.json          where it came from, licence, counts, SHA-256

A file of a known SHA-256 is compared with it. Nothing of a data set is in this repository.
"""

import contextlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files, environment, made_from, ownership, record_files
from pipeline.tasks import task_definitions
from pipeline.tasks.prepared_task import DEMONSTRATIONS
from pipeline.tasks.task import CURATED_SPLIT, Record, Task

log = logging.getLogger("pike")

UNUSABLE_SHARE = 0.01
"""Where more rows than this cannot be asked, the schema is another."""


def fetch_tasks(
    names: Sequence[str], *, out: Path, revision: str | None, given_files: Sequence[str]
) -> str:
    """Fetches tasks and says what was fetched under which licence.

    Args:
        names: Tasks.
        out: Folder that gets one folder per task.
        revision: Commit to fetch instead of the pinned one, for a single task.
        given_files: `split=file` for files that are there already, for a single task.

    Raises:
        InputError: an unknown task, no connection, a checksum that is not the known one, or a
            file of another schema.
    """
    tasks = [task_definitions.find_task(name) for name in names]
    if len(tasks) > 1 and (revision or given_files):
        raise InputError("--revision and --from are for one task at a time: name only one")
    if revision and not re.fullmatch("[0-9a-f]{40}", revision):
        raise InputError(
            f"--revision {revision!r} is not a commit of 40 hex digits; the data set's page lists "
            "them under Files, History"
        )
    return "\n".join(
        _fetch_task(task, out / task.name, revision, _parse_given_files(task, given_files))
        for task in tasks
    )


def _parse_given_files(task: Task, given_files: Sequence[str]) -> dict[str, Path]:
    result = dict(text.partition("=")[::2] for text in given_files)
    for split, path in result.items():
        if split not in task.files:
            known = ", ".join(task.files)
            raise InputError(
                f"--from {split}={path}: {task.name} has no such split: write SPLIT=FILE "
                f"(splits: {known})"
            )
    needed = {task.split, CURATED_SPLIT} if task.curated else {task.split}
    if result and needed - result.keys():
        missing = ", ".join(sorted(needed - result.keys()))
        raise InputError(f"--from: {task.name} also needs a file for: {missing}")
    return {split: Path(path) for split, path in result.items()}


def _fetch_task(
    task: Task, folder: Path, revision: str | None, given_files: Mapping[str, Path]
) -> str:
    settings: dict[str, Any] = {"revision": revision} if revision else {}
    if given_files:
        settings["files"] = {split: str(path) for split, path in given_files.items()}
    taken = made_from.InputSnapshot("fetch", [__name__], given=given_files.values())
    pinned = revision is None
    ownership.refuse_foreign_output(folder, "fetch", list(given_files.values()))
    log.info("%s: %s, licence: %s", task.name, task.repository, task.licence)
    if task.notice:
        log.warning("%s: %s", task.name, task.notice)
    revision = revision or task.revision
    kept: dict[str, list[Record]] = {}
    sources, unusable = {}, {}
    for split in given_files or task.files:
        path = given_files.get(split) or _download_split(task, split, revision)
        sha256 = _verified_sha256(path, task.files[split].sha256 if pinned else None, task)
        sources[split] = {
            "path": path.name if given_files else task.files[split].path,
            "sha256": sha256,
        }
        remedy = "give the data set's own .parquet or .jsonl file"
        kept[split] = list(record_files.read_records_by_suffix(path, remedy))
        if split != CURATED_SPLIT:
            unusable.update(_unusable_rows(task, split, kept[split]))
    if task.curated:
        kept[DEMONSTRATIONS] = _records_of_curated_demonstrations(task, kept.pop(CURATED_SPLIT))
    verified = all(task.files[split].sha256 for split in sources)
    facts = {
        "task": task.name,
        "dataset": task.repository,
        "revision": None if given_files and pinned and not verified else revision,
        "licence": task.licence,
        "notice": task.notice,
        "sources": sources,
        "rows": {name: len(records) for name, records in kept.items()},
        "unusable": unusable,
    }
    _write_task(folder, kept, settings, facts, taken)
    return _summary_text(folder, facts)


def _download_split(task: Task, split: str, revision: str) -> Path:
    """A file of the data set; the Hub's package is imported only where it is needed."""
    place = "pipeline.runtime.hub_downloads:download_hub_file"
    download = environment.import_attribute(place, "fetch without --from", task.name)
    return download(
        *(task.repository, task.files[split].path, revision),
        kind="dataset",
        remedy="give files that you have with --from SPLIT=FILE",
    )


def _verified_sha256(path: Path, expected: str | None, task: Task) -> str:
    if not path.is_file():
        raise InputError(f"--from: {path} does not exist (from {Path.cwd()})")
    result = atomic_files.sha256(path)
    if expected is not None and result != expected:
        raise InputError(
            f"{task.name}: {path} has SHA-256 {result}, not {expected}: it is another version of "
            "the data set, or damaged; fetch it anew, or name its revision with --revision to "
            "take it all the same"
        )
    return result


def _unusable_rows(task: Task, split: str, records: Sequence[Record]) -> dict[str, str]:
    """Rows that cannot be asked, and why; where they are many the schema is refused."""
    if not records:
        raise InputError(f"{task.name}: the split {split} is empty: give another file")
    result = {}
    for number, record in enumerate(records):
        place = f"{split}:{number}"
        try:
            task.row(record, place)
        except InputError as error:
            result[place] = str(error)
    if len(result) > UNUSABLE_SHARE * len(records):
        raise InputError(
            f"{task.name}: {len(result)} of {len(records)} rows of {split} cannot be asked; the "
            f"first: {next(iter(result.values()))}"
        )
    return result


def _records_of_curated_demonstrations(task: Task, records: Sequence[Record]) -> list[Record]:
    """The records of the curated demonstrations, in the list's order; of one key the first."""
    found: dict[str, Record] = {}
    for number, record in enumerate(records):
        # A row that cannot be asked is no demonstration.
        with contextlib.suppress(InputError):
            found.setdefault(task.row(record, f"{CURATED_SPLIT}:{number}").key, record)
    if missing := [key for key in task.curated if key not in found]:
        raise InputError(
            f"{task.name}: {len(missing)} of {len(task.curated)} demonstrations are not in the "
            f"{CURATED_SPLIT} split ({missing[0]!r} is the first): it is another version of the "
            "data set; fetch the pinned one"
        )
    return [found[key] for key in task.curated]


def _write_task(
    folder: Path,
    records_by_split: Mapping[str, Sequence[Record]],
    settings: Mapping[str, Any],
    facts: Mapping[str, Any],
    input_snapshot: made_from.InputSnapshot,
) -> None:
    with atomic_files.atomic_write(folder, "fetch") as partial:
        partial.mkdir()
        written = {partial / f"{name}.jsonl": records for name, records in records_by_split.items()}
        for path, records in written.items():
            lines = (_json_line(record, f"{path.stem}:{n}") for n, record in enumerate(records))
            path.write_text("".join(lines), encoding="utf-8")
        input_snapshot.write_manifest(
            partial / atomic_files.MANIFEST, settings=settings, files=[*written], facts=facts
        )


def _json_line(record: Record, place: str) -> str:
    try:
        return json.dumps(record, ensure_ascii=False, sort_keys=True) + "\n"
    except TypeError as error:
        raise InputError(
            f"{place} cannot be written as JSON ({error}): give a file without that column"
        ) from None


def _summary_text(folder: Path, facts: Mapping[str, Any]) -> str:
    rows = ", ".join(f"{count:,} rows of {name}" for name, count in facts["rows"].items())
    lines = [
        f"{facts['task']}: {rows} in {folder}",
        f"  from {facts['dataset']} at {facts['revision'] or 'a revision that was not named'}",
        f"  licence: {facts['licence']}",
    ]
    if facts["notice"]:
        lines.append(f"  {facts['notice']}")
    if facts["unusable"]:
        lines.append(f"  {len(facts['unusable'])} rows cannot be asked; put them into leave_out:")
        lines += [f"    {reason}" for reason in facts["unusable"].values()]
    return "\n".join(lines)
