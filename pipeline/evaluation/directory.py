"""`pike evaluate --model`: downstream tasks asked of a Hugging Face model directory.

    OUT/accuracies.parquet, OUT/choices.parquet   as a run's evaluation has them, step 0
    OUT/manifest.json                             the model, how it was read, what was asked

Perplexities of domains are a run's own: their corpora are in another tokenizer's tokens.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pike_mixing.settings import parse
from pipeline.evaluation import asking, readings
from pipeline.evaluation.grading import HEADLINE
from pipeline.evaluation.huggingface import Directory
from pipeline.evaluation.output_tables import TableRows
from pipeline.evaluation.questions import Downstream, Evaluation, downstream
from pipeline.evaluation.readings import Verdict
from pipeline.runtime import atomic_files, devices, ownership
from pipeline.runtime.progress import Progress

log = logging.getLogger("pike")

DEFAULTS = {"rows": 1, "checkpoints": "last", "batch_tokens": 8192}
"""Settings that a file for a model of somebody else's may leave out."""


def evaluate(
    settings: Path,
    model: Path,
    out: Path,
    *,
    tasks: Path | None = None,
    device: str = "auto",
    dtype: str = "float32",
    length: int | None = None,
    reading: str = "auto",
) -> str:
    """Evaluates a model directory; `out` appears whole, replacing one before it.

    Args:
        settings: JSON of `tasks` and, if wanted, `batch_tokens`; a run's own evaluation.json asks
            what the run was asked, its perplexities aside.
        model: Folder with config.json, weights as safetensors and a tokenizer.
        out: Folder to make.
        tasks: Folder of the fetched downstream tasks.
        device: Kind of device: auto, cpu or cuda.
        dtype: Of the weights: float32, bfloat16 or float16.
        length: Tokens that the model reads at once; absent: as its configuration says.
        reading: auto tries whether candidates can stand side by side; rows gives each a row.

    Returns:
        The accuracies as text.

    Raises:
        InputError: wrong settings, no tasks in them, tasks that are not fetched, a model that
            cannot be loaded, a question that does not fit, or a likelihood that is no finite
            number.
    """
    values = atomic_files.read_json(settings)
    if not isinstance(values, dict):
        raise InputError(f'{settings} is no table of settings: write {{"tasks": [...]}}')
    asked = parse(Evaluation, {**DEFAULTS, **values}, str(settings))
    if not asked.tasks:
        raise InputError(f"{settings}.tasks: name at least one task; a model is asked nothing else")
    ownership.refuse(out, "evaluate", [settings, model, *([tasks] if tasks else [])])
    place = devices.pick(device, any_shape=True)
    given = Directory(model, dtype=dtype, length=length)
    benchmarks = downstream(asked, tasks, given.pieces, given.length)
    given.model.to(place)
    options = {"batch_tokens": asked.batch_tokens, "device": place}
    how = _read(given, benchmarks, reading, options)
    rows, lines = _answered(given, benchmarks, how, options)
    told = {one.benchmark.asked.name: one.facts() for one in benchmarks}
    with atomic_files.atomic_write(out, "evaluate") as partial:
        written = rows.write(partial, 0)
        atomic_files.write_manifest(
            partial / atomic_files.MANIFEST,
            stage="evaluate",
            settings=values,
            inputs=[*given.files, *dict.fromkeys(b.benchmark.manifest for b in benchmarks)],
            files=written,
            modules=[__name__],
            facts={**given.facts(), **how.facts(), "tasks": told},
        )
    return "\n".join([*lines, f"read by {how.reading}: {how.reason}", f"in {out}"])


def _answered(
    given: Directory, benchmarks: Sequence[Downstream], how: Verdict, options: Mapping[str, Any]
) -> tuple[TableRows, list[str]]:
    """Rows of the tables, and a line of text for each way to ask."""
    rows, lines, scorer = TableRows(), [], readings.SCORERS[how.reading]
    with Progress(f"evaluate {given.folder.name}", total=len(benchmarks), unit="task") as bar:
        for one in benchmarks:
            benchmark, items = one.benchmark, one.items
            told = asking.answer(given.model, benchmark, items, scorer=scorer, **options)
            rows.add("accuracies", asking.accuracies(benchmark, told))
            rows.add("choices", asking.choices(benchmark, items, told))
            lines.append(_line(one, told.grades.accuracy[HEADLINE]))
            bar.add(1)
    return rows, lines


def _read(
    given: Directory, benchmarks: Sequence[Downstream], reading: str, options: Mapping[str, Any]
) -> Verdict:
    """How the model is read: tried on questions of every task, with context and without."""
    if reading not in ("auto", "rows"):
        raise InputError(f"--reading {reading!r} is unknown: choose auto or rows")
    if reading == "rows":
        return Verdict("rows", "asked for", None)
    tries = []
    for one in benchmarks:
        questions = asking.questions(one.items)
        half = len(one.items)
        tries += [readings.tried(questions[:half]), readings.tried(questions[half:])]
    found = readings.verdict(given.model, tries, **options)
    if found.reading == "rows":
        log.warning("every candidate is read in a row of its own, which is slow: %s", found.reason)
    return found


def _line(one: Downstream, headline: tuple[float, float | None]) -> str:
    """One task's headline accuracy as text."""
    value, stderr = headline
    error = "" if stderr is None else f" ± {stderr:.1f}"
    chance, items = one.benchmark.chance, len(one.items)
    return (
        f"{one.benchmark.asked.name:<32} {HEADLINE} {value:5.1f}{error}, chance {chance:.1f}, "
        f"{items:,} items"
    )
