"""The probe: how alike the domains' gradients are at each checkpoint of a run.

    probes/step{n}.parquet   one row per pair of domains
    probes/manifest.json     what was measured, and on which rows

Shapes: K domains, R rows of one domain, L tokens of a row.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.torch import gradient_moments
from pike_mixing.torch.pass_interface import Target
from pike_mixing.torch.step_rows import DealtRows
from pipeline import settings as parsing
from pipeline.data.shards import Corpus
from pipeline.model import checkpoint
from pipeline.model.pipeline_passes import PipelinePasses
from pipeline.model.transformer import Transformer
from pipeline.runtime import atomic_files, devices, made_from, manifests, pick_device
from pipeline.runtime.progress import Progress
from pipeline.runtime.validate_settings import validate
from pipeline.tasks.evaluation_settings import Probe

SCHEMA = pa.schema(
    [
        *(("step", pa.int64()), ("domain_a", pa.string()), ("domain_b", pa.string())),
        *((measure, pa.float64()) for measure in ("cosine", "ratio", "cosine_corrected")),
    ]
)


def probe_gradients(settings: Path, run: Path, corpora: Path, *, device: str = "auto") -> None:
    """Probes a run's checkpoints; `{run}/probes` appears whole, replacing one before it.

    `settings` is JSON of the fields of `Probe`; the rest is as `pike probe --help` has it.

    Raises:
        InputError: wrong settings, a run without manifest, missing or damaged corpora or
            checkpoints, or a gradient that is not finite.
    """
    values = atomic_files.read_json(settings)
    probe = validate(Probe, values, str(settings))
    snapshot = made_from.InputSnapshot("probe", [__name__], inputs=[run / atomic_files.MANIFEST])
    record, work = manifests.read_run_manifest_and_settings(run)
    steps = record["checkpoints"] if probe.checkpoints == "all" else record["checkpoints"][-1:]
    folders = [run, *(run / "checkpoints" / f"step{step}" for step in steps)]
    folders += [corpora / domain for domain in work.domains]
    snapshot.take_digests([folder / atomic_files.MANIFEST for folder in folders])
    if snapshot.restore_manifest_if_unchanged(run / "probes" / atomic_files.MANIFEST, values):
        return
    devices.keep_freed_memory()
    place = pick_device.claim_device(device)
    rows_by_domain, pieces = _read_rows_and_vocabulary(probe, work, corpora)
    rows_by_domain = [rows.to(devices.batch_device(place)) for rows in rows_by_domain]
    with (
        atomic_files.atomic_write(run / "probes", "probe") as out,
        Progress(f"probe {record['run']}", total=len(steps), unit="checkpoint") as bar,
    ):
        out.mkdir()
        for step in steps:
            folder = run / "checkpoints" / f"step{step}"
            model = checkpoint.load_model(folder).refuse_other_tokenizer(pieces, corpora, folder)
            where = f"{record['run']}, step {step}"
            model = model.to(place)
            result = _measure_similarities(
                model, rows_by_domain, probe.microbatch, work.domains, where
            )
            _write_similarities(out / f"step{step}.parquet", step, work.domains, result)
            bar.add(1, step=step)
        count = {d: len(r) for d, r in zip(work.domains, rows_by_domain, strict=True)}
        snapshot.write_manifest(
            out / atomic_files.MANIFEST,
            settings=values,
            files=[out / f"step{step}.parquet" for step in steps],
            facts={"run": record["run"], "steps": list(steps), "rows": count},
        )


def gradient_similarities(gram_KxK: Floats, squared_norm_unbiased_K: Floats) -> dict[str, Floats]:
    """How alike each pair of gradients is; K x K, NaN where a norm is not positive.

    - `cosine`: g_j . g_k / (|g_j| |g_k|)
    - `ratio`: g_j . g_k / (|g_j|^2 + |g_k|^2)
    - `cosine_corrected`: g_j . g_k / sqrt(unbiased |g_j|^2 times unbiased |g_k|^2)

    Cosine and ratio are the paper's (Appendix `app: cos_sim_grad_conflict`). Their norms hold the
    noise of the rows beside the signal, so that few rows make any two gradients look more
    orthogonal than they are; the corrected cosine divides by unbiased norms, and may leave
    [-1, 1] by chance. An unbiased norm is NaN where one micro-batch holds all rows.
    """
    own_K = gram_KxK.diagonal()
    # Of two negative ones, too, nothing is known.
    known_K = np.where(squared_norm_unbiased_K > 0, squared_norm_unbiased_K, np.nan)
    by = {
        "cosine": np.sqrt(own_K[:, None] * own_K),
        "ratio": own_K[:, None] + own_K,
        "cosine_corrected": np.sqrt(known_K[:, None] * known_K),
    }
    return {n: gram_KxK / np.where(by_KxK > 0, by_KxK, np.nan) for n, by_KxK in by.items()}


def _read_rows_and_vocabulary(
    probe: Probe, work: parsing.Run, corpora: Path
) -> tuple[list[Tensor], int]:
    """Rows of each domain, spread evenly over its split, and the tokenizer's pieces.

    They are a function of corpora and settings alone, hence the same for every method.
    """
    result, pieces, length = [], 0, work.training.length
    for domain in work.domains:
        corpus = Corpus.open(corpora / domain, probe.split, verify=True)
        pieces = max(pieces, corpus.vocabulary)
        row_R = corpus.evenly_spread_row_numbers(length, probe.rows)
        result.append(torch.from_numpy(corpus.read_rows(row_R, length)))
    return result, pieces


def _measure_similarities(
    model: Transformer,
    rows_by_domain: Sequence[Tensor],
    microbatch: int,
    domains: Sequence[str],
    place: str,
) -> dict[str, Floats]:
    passes, count_K = PipelinePasses(model), np.array([len(rows) for rows in rows_by_domain])
    rows = DealtRows(passes, torch.cat(list(rows_by_domain)), count_K, microbatch)
    _, gram_KxK, measured = gradient_moments.measure_and_fetch_gramian(
        Target(model, passes), rows.rows_by_domain(microbatch, whole_micro_batches=True)
    )
    squares_K, losses_K = gram_KxK.diagonal().tolist(), measured.loss_K.tolist()
    for domain, square, loss in zip(domains, squares_K, losses_K, strict=True):
        if not (math.isfinite(square) and math.isfinite(loss)):
            raise InputError(
                f"{place}, domain {domain}: loss {loss} or its gradient is not a finite number, "
                "the model has diverged: lower training.peak_learning_rate and train again"
            )
    return gradient_similarities(gram_KxK, measured.squared_norm_unbiased_K)


def _write_similarities(
    path: Path, step: int, domains: Sequence[str], columns: Mapping[str, Floats]
) -> None:
    rows = [
        {"step": step, "domain_a": domains[a], "domain_b": domains[b]}
        | {
            n: None if np.isnan(value_KxK[a, b]) else value_KxK[a, b]
            for n, value_KxK in columns.items()
        }
        for a, b in itertools.combinations(range(len(domains)), 2)
    ]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path, compression="zstd")
