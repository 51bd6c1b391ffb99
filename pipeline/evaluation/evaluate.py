"""The evaluation stage: the kept checkpoints of a run, all or the last, on the chosen domains.

    evaluations/step{n}/perplexities.parquet   loss of each domain, with its standard error
    evaluations/step{n}/documents.parquet      the same, summed by document
    evaluations/step{n}/search_losses.parquet  loss on the search split, where it is asked for
    evaluations/step{n}/token_losses.parquet   that of every scored token, where asked for
    evaluations/step{n}/accuracies.parquet     the task `continuation-{domain}` with its baselines,
                                               and downstream tasks under every normalisation
    evaluations/step{n}/choices.parquet        every item's scores
    evaluations/manifest.json                  what was asked, and which tasks were skipped

Windows and items are functions of corpora and settings alone: every method gets the same, so
that methods can be compared document by document and item by item.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pipeline.data.tokenizer import Tokenizer
from pipeline.evaluation import answers, perplexity
from pipeline.evaluation.answers import QuestionSet
from pipeline.evaluation.questions import EvaluatedDomain, prepare_domains, task_questions
from pipeline.model import checkpoint
from pipeline.model.transformer import Transformer
from pipeline.runtime import atomic_files, devices, made_from, manifests, pick_device
from pipeline.runtime.progress import Progress
from pipeline.runtime.validate_settings import validate
from pipeline.tasks.evaluation_settings import Evaluation
from pipeline.tasks.prepared_task import prepare_task

INT, SHORT, REAL, TEXT = pa.int64(), pa.int32(), pa.float64(), pa.string()
WAY = [("step", INT), ("task", TEXT), ("shots", SHORT), ("formulation", TEXT)]

TABLES = {
    "perplexities": pa.schema(
        [
            *(("step", INT), ("domain", TEXT), ("nll", REAL), ("perplexity", REAL)),
            *(("bits_per_byte", REAL), ("tokens", INT), ("stderr", REAL)),
        ]
    ),
    "documents": pa.schema(
        [
            *(("step", INT), ("domain", TEXT), ("document", TEXT)),
            *(("nll", REAL), ("tokens", INT), ("bytes", INT)),
        ]
    ),
    "accuracies": pa.schema(
        [*WAY, ("metric", TEXT), ("value", REAL), ("stderr", REAL), ("examples", INT)]
    ),
    "choices": pa.schema(
        [
            *(*WAY, ("item", TEXT), ("document", TEXT), ("gold", SHORT), ("pick", SHORT)),
            *((name, pa.list_(REAL)) for name in ("sum_log_likelihood", "unconditional")),
            *((name, pa.list_(SHORT)) for name in ("tokens", "characters", "bytes")),
            ("shots_used", SHORT),
        ]
    ),
    "search_losses": pa.schema([("step", INT), ("domain", TEXT), ("nll", REAL), ("tokens", INT)]),
    "token_losses": pa.schema([("step", INT), ("domain", TEXT), ("nll", pa.list_(pa.float32()))]),
}
"""Columns of every table; the database adds the run."""

ON_REQUEST = ("search_losses", "token_losses")
"""Tables that are written only with rows."""

TableRows = dict[str, list[tuple[Any, ...]]]
"""Rows of every table of one checkpoint in the order of its columns, the step left out."""


def evaluate_chosen_checkpoints(
    settings: Path,
    run: Path,
    corpora: Path,
    tokenizer: Path,
    *,
    tasks: Path | None = None,
    device: str = "auto",
) -> None:
    """Evaluates the checkpoints of a run that the settings choose: all or the last.

    `{run}/evaluations` appears whole, replacing one before it. `settings` is JSON of the fields of
    `Evaluation`; the rest is as `pike evaluate --help` has it.

    Raises:
        InputError: wrong settings, a run without manifest, damaged or missing corpora, tasks or
            checkpoints, a tokenizer that is not theirs, a question that does not fit the model, or
            a loss that is no finite number.
    """
    values = atomic_files.read_json(settings)
    evaluation = validate(Evaluation, values, str(settings))
    snapshot = made_from.InputSnapshot(
        "evaluate", [__name__], inputs=[run / atomic_files.MANIFEST, tokenizer]
    )
    record, work = manifests.read_run_manifest_and_settings(run)
    steps = record["checkpoints"] if evaluation.checkpoints == "all" else record["checkpoints"][-1:]
    folders = [run, *(run / "checkpoints" / f"step{step}" for step in steps)]
    folders += [corpora / domain for domain in evaluation.domains or work.domains]
    folders += [tasks / one.task for one in evaluation.tasks] if tasks else []
    snapshot.take_digests([folder / atomic_files.MANIFEST for folder in dict.fromkeys(folders)])
    if snapshot.restore_manifest_if_unchanged(run / "evaluations" / atomic_files.MANIFEST, values):
        return
    devices.keep_freed_memory()
    place = pick_device.claim_device(device)
    pieces = Tokenizer(tokenizer)
    domains = prepare_domains(evaluation, work, corpora, pieces)
    questions = [one for domain in domains for one in domain.questions]
    if evaluation.tasks and tasks is None:
        raise InputError(
            f"{evaluation.tasks[0].label} is asked: name the folder of the fetched tasks with "
            "--tasks"
        )
    if tasks is not None:
        loaded = [prepare_task(tasks, one) for one in evaluation.tasks]
        questions += [task_questions(one, pieces, work.training.length) for one in loaded]
    with (
        atomic_files.atomic_write(run / "evaluations", "evaluate") as out,
        Progress(f"evaluate {record['run']}", total=len(steps), unit="checkpoint") as bar,
    ):
        written: list[Path] = []
        for step in steps:
            folder = run / "checkpoints" / f"step{step}"
            model = checkpoint.load_model(folder).refuse_other_tokenizer(
                pieces.vocabulary, tokenizer, folder
            )
            try:
                rows = _evaluate_model(model.to(place), domains, questions, evaluation)
            except InputError as error:
                raise InputError(f"{record['run']}, step {step}: {error}") from None
            written += write_tables(out / f"step{step}", step, rows)
            bar.add(1, step=step)
        snapshot.write_manifest(
            out / atomic_files.MANIFEST,
            settings=values,
            files=written,
            facts={
                "run": record["run"],
                "steps": list(steps),
                "windows": {d.name: d.windows.manifest_facts() for d in domains},
                "searched": {d.name: d.search.manifest_facts() for d in domains if d.search},
                "tasks": {one.name: one.manifest_facts for one in questions},
                "skipped": {way: why for d in domains for way, why in d.skipped.items()},
            },
        )


def _evaluate_model(
    model: Transformer,
    domains: Sequence[EvaluatedDomain],
    questions: Sequence[QuestionSet],
    settings: Evaluation,
) -> TableRows:
    rows: TableRows = {name: [] for name in TABLES}
    batch_tokens = settings.batch_tokens
    for domain in domains:
        name, windows = domain.name, domain.windows
        loss = _measure_finite_loss(model, name, windows, batch_tokens)
        measured = (loss.nll, loss.perplexity, loss.bits_per_byte, loss.tokens, loss.stderr)
        rows["perplexities"].append((name, *measured))
        sums = (loss.nll_G.tolist(), windows.tokens_G.tolist(), windows.bytes_G.tolist())
        rows["documents"] += ((name, *d) for d in zip(windows.documents, *sums, strict=True))
        if domain.search is not None:
            searched = _measure_finite_loss(model, name, domain.search, batch_tokens)
            rows["search_losses"].append((name, searched.nll, searched.tokens))
            if settings.token_losses:
                rows["token_losses"].append((name, searched.nll_N.tolist()))
    for one in questions:
        result = answers.ask_model(model, one, batch_tokens=batch_tokens)
        rows["accuracies"] += answers.accuracy_rows_by_metric(one, result)
        rows["choices"] += answers.one_row_per_item(one, result)
    return rows


def _measure_finite_loss(
    model: Transformer, domain: str, windows: perplexity.Windows, batch_tokens: int
) -> perplexity.Perplexity:
    """The loss on some windows of a domain, if it is a number."""
    result = perplexity.measure_perplexity(model, windows, batch_tokens=batch_tokens)
    if not (math.isfinite(result.nll) and math.isfinite(result.perplexity)):
        raise InputError(
            f"domain {domain}: the loss is not a finite number, the model has diverged: lower "
            "training.peak_learning_rate and train again"
        )
    return result


def write_tables(new_folder: Path, step: int, rows: TableRows) -> list[Path]:
    """Writes one Parquet file per table, without rows too but for those on request."""
    new_folder.mkdir(parents=True)
    written = []
    for name, of_table in rows.items():
        if of_table or name not in ON_REQUEST:
            columns = TABLES[name].names
            records = [dict(zip(columns, (step, *row), strict=True)) for row in of_table]
            written.append(new_folder / f"{name}.parquet")
            table = pa.Table.from_pylist(records, TABLES[name])
            pq.write_table(table, written[-1], compression="zstd")
    return written
