"""The evaluation stage: every kept checkpoint of a run, on every domain.

    evaluations/step{n}/perplexities.parquet   loss of each domain, with its error
    evaluations/step{n}/documents.parquet      the same, summed by document
    evaluations/step{n}/accuracies.parquet     the task `continuation-{domain}` and its baselines
    evaluations/step{n}/choices.parquet        every item's scores
    evaluations/manifest.json                  what was asked, and which tasks were skipped

Windows and items are functions of corpora and settings alone: every method answers the same, so
that methods can be compared document by document and item by item.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from pipeline import checkpoint, devices, disk, files
from pipeline import settings as parsing
from pipeline.data.tokenizer import Tokenizer
from pipeline.errors import InputError
from pipeline.evaluation import choice, items, perplexity
from pipeline.evaluation.questions import Domain, Evaluation, prepared
from pipeline.model import Transformer, padded_vocabulary
from pipeline.progress import Progress

SHOTS = 0
FORMULATION = "pmi"

TABLES = {
    "perplexities": pa.schema(
        [
            ("step", pa.int64()),
            ("domain", pa.string()),
            ("nll", pa.float64()),
            ("perplexity", pa.float64()),
            ("bits_per_byte", pa.float64()),
            ("tokens", pa.int64()),
            ("stderr", pa.float64()),
        ]
    ),
    "documents": pa.schema(
        [
            ("step", pa.int64()),
            ("domain", pa.string()),
            ("document", pa.string()),
            ("nll", pa.float64()),
            ("tokens", pa.int64()),
            ("bytes", pa.int64()),
        ]
    ),
    "accuracies": pa.schema(
        [
            ("step", pa.int64()),
            ("task", pa.string()),
            ("shots", pa.int32()),
            ("formulation", pa.string()),
            ("metric", pa.string()),
            ("value", pa.float64()),
            ("stderr", pa.float64()),
            ("examples", pa.int64()),
        ]
    ),
    "choices": pa.schema(
        [
            ("step", pa.int64()),
            ("task", pa.string()),
            ("item", pa.string()),
            ("document", pa.string()),
            ("gold", pa.int32()),
            ("pick", pa.int32()),
            ("sum_log_likelihood", pa.list_(pa.float64())),
            ("unconditional", pa.list_(pa.float64())),
        ]
    ),
}

Rows = dict[str, list[tuple[Any, ...]]]


def evaluate(
    settings: Path,
    run: Path,
    corpora: Path,
    tokenizer: Path,
    *,
    device: str = "auto",
) -> None:
    """Evaluates a run's checkpoints; `{run}/evaluations` appears whole, replacing one before it.

    Args:
        settings: JSON of the fields of `Evaluation`.
        run: Folder of a finished run.
        corpora: Folder of the packed corpora of the run's tokenizer, one subfolder per domain.
        tokenizer: The SentencePiece model that packed them.
        device: Kind of device: auto, cpu or cuda.

    Raises:
        InputError: wrong settings, a run without manifest, damaged or missing corpora or
            checkpoints, a tokenizer that is not theirs, or a loss that is no finite number.
    """
    values = files.read_json(settings)
    asked = parsing.parse(Evaluation, values, str(settings))
    record = files.read_json(run / files.MANIFEST)
    work = parsing.parse(parsing.Run, record["settings"], f"{run / files.MANIFEST}: settings")
    devices.keep_freed_memory()
    place = devices.pick(device)
    domains = prepared(asked, work, corpora, Tokenizer(tokenizer))
    steps = record["checkpoints"] if asked.checkpoints == "all" else record["checkpoints"][-1:]
    with (
        disk.named(run),
        files.appearing(run / "evaluations") as out,
        Progress(f"evaluate {record['run']}", total=len(steps), unit="checkpoint") as bar,
    ):
        written: list[Path] = []
        for step in steps:
            model = _model(run / "checkpoints" / f"step{step}", work, domains).to(place)
            rows = _asked(model, domains, asked, f"{record['run']}, step {step}", place)
            written += _write(out / f"step{step}", step, rows)
            bar.add(1, step=step)
        _finish(out, values, run, corpora, tokenizer, record, steps, domains, written)


def _model(folder: Path, work: parsing.Run, domains: Sequence[Domain]) -> Transformer:
    model = checkpoint.load_model(folder)
    for domain in domains:
        pieces = domain.held_out.vocabulary
        if padded_vocabulary(pieces, work.model.vocabulary_multiple) != model.vocabulary:
            raise InputError(
                f"{folder} has an embedding of {model.vocabulary:,} pieces, which is not that of "
                f"{domain.held_out.folder} ({pieces:,} pieces): give the corpora of the tokenizer "
                f"{work.tokenizer!r}"
            )
    return model


def _asked(
    model: Transformer,
    domains: Sequence[Domain],
    asked: Evaluation,
    where: str,
    device: torch.device,
) -> Rows:
    """Rows of every table, the step left out.

    Raises:
        InputError: a loss is not finite.
    """
    rows: Rows = {name: [] for name in TABLES}
    for domain in domains:
        name, windows = domain.name, domain.windows
        loss = perplexity.measure(model, windows, batch_tokens=asked.batch_tokens, device=device)
        _refuse_nan([loss.nll, loss.perplexity], where, name)
        rows["perplexities"].append(
            (name, loss.nll, loss.perplexity, loss.bits_per_byte, loss.tokens, loss.stderr)
        )
        sums = (loss.nll_G.tolist(), windows.tokens_G.tolist(), windows.bytes_G.tolist())
        rows["documents"] += [
            (name, *document) for document in zip(windows.documents, *sums, strict=True)
        ]
        if domain.items is not None:
            answers = choice.answer(
                model,
                domain.items,
                domain.held_out.eos,
                batch_tokens=asked.batch_tokens,
                device=device,
            )
            _refuse_nan(
                [answers.conditional_IxN.sum(), answers.unconditional_IxN.sum()], where, name
            )
            _add_answers(rows, domain.task, domain.items, answers)
    return rows


def _add_answers(rows: Rows, task: str, made: items.Items, answers: choice.Answers) -> None:
    rows["accuracies"] += [
        (task, SHOTS, FORMULATION, metric, value, stderr, len(made.names))
        for metric, (value, stderr) in answers.accuracy.items()
    ]
    columns = zip(
        made.names,
        made.documents,
        made.gold_I.tolist(),
        answers.pick_I.tolist(),
        answers.conditional_IxN.tolist(),
        answers.unconditional_IxN.tolist(),
        strict=True,
    )
    rows["choices"] += [(task, *item) for item in columns]


def _refuse_nan(values: Sequence[float], where: str, domain: str) -> None:
    if not all(math.isfinite(value) for value in values):
        raise InputError(
            f"{where}, domain {domain}: the loss is not a finite number, the model has diverged: "
            "lower training.peak_learning_rate and train again"
        )


def _write(folder: Path, step: int, rows: Rows) -> list[Path]:
    folder.mkdir(parents=True)
    written = []
    for name, schema in TABLES.items():
        columns = zip(*((step, *row) for row in rows[name]), strict=True)
        arrays = list(columns) if rows[name] else [()] * len(schema)
        table = pa.table(
            [pa.array(a, field.type) for a, field in zip(arrays, schema, strict=True)],
            schema=schema,
        )
        written.append(folder / f"{name}.parquet")
        pq.write_table(table, written[-1], compression="zstd")
    return written


def _finish(
    out: Path,
    values: Mapping[str, Any],
    run: Path,
    corpora: Path,
    tokenizer: Path,
    record: Mapping[str, Any],
    steps: Sequence[int],
    domains: Sequence[Domain],
    written: Sequence[Path],
) -> None:
    folders = [run, *(run / "checkpoints" / f"step{step}" for step in steps)]
    folders += [corpora / domain.name for domain in domains]
    files.write_manifest(
        out / files.MANIFEST,
        stage="evaluate",
        settings=values,
        inputs=[*(folder / files.MANIFEST for folder in folders), tokenizer],
        files=written,
        modules=[__name__],
        facts={
            "run": record["run"],
            "steps": list(steps),
            "windows": {
                d.name: {"rows": len(d.windows.tokens_RxL1), "documents": len(d.windows.documents)}
                for d in domains
            },
            "tasks": {
                d.task: {
                    "items": len(d.items.names),
                    "documents": len(set(d.items.documents)),
                    "chance": 100 / d.items.candidate_IxNxW.shape[1],
                    "sha256": d.items.digest,
                }
                for d in domains
                if d.items is not None
            },
            "skipped": {d.task: d.skipped for d in domains if d.skipped is not None},
        },
    )
