"""How far estimates of gradient statistics are off: bias and spread against the truth.

    python -m benchmarks.estimators [--steps 300] [--pool 384] [--draws 400]

A small model is trained on three domains of real text with Mix, by the pipeline's own stages. At
two checkpoints the gradient of each of `--pool` rows of a domain is made, one by one. They are the
population: its mean's squared norm and its variance are the truth. Estimates are made from rows
drawn with replacement, so that their expectation is known; since they are functions of inner
products alone, the pool's Gramian gives thousands of them. A few are made by
`pike_mixing.torch.gradient_moments` too, and must be the same.

Record: benchmarks/results/estimators.json, from which docs/estimators.md is written.

Shapes: P rows of the pool, b rows of an estimate in micro-batches of s.
"""

import dataclasses
import json
import statistics
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import corpora, measure, records
from pike_mixing.torch import gradient_statistics
from pike_mixing.torch.domain_gradient import measure_domain_gradient
from pike_mixing.torch.pass_interface import Target
from pike_mixing.torch.step_rows import DealtRows
from pipeline import settings
from pipeline.data.batches import DomainRows
from pipeline.data.shards import Corpus
from pipeline.model import checkpoint
from pipeline.model.pipeline_passes import PipelinePasses, row_losses
from pipeline.model.transformer import Transformer
from pipeline.planning import planner
from pipeline.training import train

DOMAINS = ("code", "prose", "headers")
ROWS, MICROBATCHES = (8, 16, 32, 64, 128, 256), (1, 2, 4, 8, 16, 32)
MODEL = settings.Model(layers=2, width=64, heads=2, head_width=32)
TOKENIZER = {"vocabulary": 2048, "characters": 400_000, "validation_share": 0.1}
BATCH = {"rows": 24, "length": 64}
PIECE_NUMBERS = 2**16
CHECKED = 2
"""Estimates of each kind, of the smaller sets of rows, that the pipeline makes too."""
PAGE = records.ROOT / "docs" / "estimators.md"


def main() -> None:
    chosen = measure.arguments(__doc__, "estimators", steps=300, pool=384, draws=400, page=PAGE)
    config = planner.read_expanded_config(records.ROOT / "config.yaml")
    named = {domain: {**config["sources"][domain], "bytes": 600_000} for domain in DOMAINS}
    tenth = chosen.steps // 10
    often = {"warmup_steps": tenth, "checkpoint_every": tenth, "resume_every": chosen.steps}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packed = corpora.packed(folder, named, **TOKENIZER)
        shape = dataclasses.asdict(MODEL)
        training = {**BATCH, "steps": chosen.steps, **often}
        run = corpora.run_file(folder / "run", list(DOMAINS), shape, **training)
        train.pretrain(run, packed, device="cpu", threads=1)
        result: dict[str, dict[str, Any]] = {}
        for step in (tenth, chosen.steps):
            model = checkpoint.load_model(run.parent / "checkpoints" / f"step{step}").train()
            result[str(step)] = {
                domain: studied(model, packed / domain, step, chosen.pool, chosen.draws)
                for domain in DOMAINS
            }
    asked = {name: getattr(chosen, name) for name in ("steps", "pool", "draws")}
    measure.record(chosen, {"model": shape, **asked, "checkpoints": result})
    chosen.page.write_text(page(json.loads(chosen.out.read_text())), encoding="utf-8")


def studied(model: Transformer, corpus: Path, step: int, pool: int, draws: int) -> dict[str, Any]:
    """Truth, and estimates in its units: mean and standard deviation by b and s."""
    rows = DomainRows({"one": Corpus.open(corpus, "train")}, BATCH["length"], 0, "estimators")
    tokens = rows.read_tokens_at(torch.tensor([pool]).numpy(), torch.tensor([0]).numpy())
    tokens_PxL1 = torch.from_numpy(tokens)
    gram_PxP = row_products(model, tokens_PxL1)
    squared_norm = float(gram_PxP.mean())
    variance = float(gram_PxP.diagonal().mean()) - squared_norm
    random = torch.Generator().manual_seed(step)
    result = []
    for b in ROWS:
        sizes = [s for s in MICROBATCHES if s <= b // 4]
        drawn = [torch.randint(pool, (b,), generator=random) for _ in range(draws)]
        made = [estimates(gram_PxP[index_b][:, index_b], sizes) for index_b in drawn]
        for index_b, expected in list(zip(drawn, made, strict=True))[: CHECKED if b <= 32 else 0]:
            check(model, tokens_PxL1[index_b], expected)
        of_noise = {s: summary(one["variance"][s] / variance for one in made) for s in sizes}
        of_norm = {s: summary(one["unbiased"][s] / squared_norm for one in made) for s in sizes}
        result.append(
            {
                "rows": b,
                "plug_in": summary(one["plug_in"] / squared_norm for one in made),
                "unbiased": of_norm,
                "variance": of_noise,
                "negative": sum(one["unbiased"][1] < 0 for one in made) / draws,
            }
        )
    return {"squared_norm": squared_norm, "variance": variance, "estimates": result}


def row_products(model: Transformer, tokens_PxL1: Tensor) -> Tensor:
    """Inner products of the gradients of single rows, float64 [P, P]."""
    target = Target(model, PipelinePasses(model))
    P, size = len(tokens_PxL1), sum(p.numel() for p in target.parameters)
    gradient_PxD = torch.empty(P, size)
    for row, into_D in zip(tokens_PxL1, gradient_PxD, strict=True):
        dealt = DealtRows(target.passes, row[None], np.array([1]), 1)
        (rows,) = dealt.rows_by_domain(1, whole_micro_batches=False)
        parts = measure_domain_gradient(model, target, rows, with_variance=False).parts
        torch.cat([part.flatten() for part in parts], out=into_D)
    gram_PxP = torch.zeros(P, P, dtype=torch.float64)
    for piece_PxN in gradient_PxD.split(PIECE_NUMBERS, dim=1):
        gram_PxP += (piece_PxN @ piece_PxN.T).double()
    return gram_PxP


def estimates(gram_bxb: Tensor, sizes: list[int]) -> dict[str, Any]:
    """What `gradient_statistics` makes of rows with these inner products, by micro-batch."""
    b, plug_in = len(gram_bxb), float(gram_bxb.mean())
    variance = {}
    for s in sizes:
        # Squared norms of the micro-batches' means lie on the diagonal of the blocks' means.
        blocks_nxn = gram_bxb.view(b // s, s, b // s, s).mean(dim=(1, 3))
        squares = float(blocks_nxn.diagonal().sum()) * s
        variance[s] = (squares - b * plug_in) / (b // s - 1)
    unbiased = {s: plug_in - v / b for s, v in variance.items()}
    return {"plug_in": plug_in, "variance": variance, "unbiased": unbiased}


def check(model: Transformer, rows_bxL1: Tensor, expected: dict[str, Any]) -> None:
    """Holds estimates against the pipeline's own of the same rows."""
    for s, variance in expected["variance"].items():
        result = gradient_statistics(model, row_losses, [rows_bxL1], micro_batch_rows=s)
        assert abs(float(result.squared_norm_K[0]) / expected["plug_in"] - 1) < 1e-3
        assert abs(float(result.variance_K[0]) / variance - 1) < 1e-3


def summary(ratios: Iterable[float]) -> dict[str, float]:
    """Mean and standard deviation."""
    listed = list(ratios)
    return {"mean": statistics.fmean(listed), "sd": statistics.stdev(listed)}


SHOWN = (8, 64)
"""Rows of an estimate that the page shows; the record has all."""

HEAD = """# Errors of gradient statistics

PiKE's weights follow estimates of |grad L_k|^2 and sigma_k^2 from b_k rows of a domain. Each
estimate below is divided by the true value: 1 is right; in brackets is the standard deviation
between sets of rows. Made by `python -m benchmarks.estimators` ({date}, {draws} sets of rows per
number); the record has more sizes.

The true value is that of a pool of {pool} rows of each domain, from which rows are drawn with
replacement. The model has {layers} layers of width {width} and was trained with Mix for {steps}
steps on three domains. Rows have 64 tokens.

- *plug-in*: squared norm of the rows' mean gradient, as in the paper. Its bias is variance / b_k.
- *unbiased*: the same minus the estimated variance / b_k
  ([0008](decisions.md#0008-norms-without-noise)), from single rows; *below 0*: how often it is
  negative.

"""


def page(result: dict[str, Any]) -> str:
    shape = {name: result["model"][name] for name in ("layers", "width")}
    text = HEAD.format(**{n: result[n] for n in ("date", "draws", "pool", "steps")}, **shape)
    titles = ["domain", "variance / squared norm", "rows b_k", "plug-in", "unbiased", "below 0"]
    for step, by_domain in result["checkpoints"].items():
        rows = []
        for domain, found in by_domain.items():
            noise = f"{found['variance'] / found['squared_norm']:.0f}"
            for one in (one for one in found["estimates"] if one["rows"] in SHOWN):
                values = [shown(one["plug_in"]), shown(one["unbiased"]["1"])]
                rows.append([domain, noise, str(one["rows"]), *values, f"{one['negative']:.0%}"])
        text += f"## After {step} steps\n\n{records.table(titles, rows)}\n\n"
    return text


def shown(found: dict[str, float]) -> str:
    return f"{found['mean']:.2f} ({found['sd']:.2f})"


if __name__ == "__main__":
    main()
