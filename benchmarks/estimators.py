"""How far estimates of gradient statistics are off: bias and spread against the truth.

    python -m benchmarks.estimators [--steps 300] [--pool 384] [--draws 400]

A small model is trained on three domains of real text with Mix, by the pipeline's own stages. At
two checkpoints the gradient of each of `--pool` rows of a domain is made, one by one. They are the
population: its mean's squared norm and its variance are the truth. Estimates are made from rows
drawn with replacement, so that their expectation is known; since they are functions of inner
products alone, the pool's Gramian gives thousands of them. A few are made by
`pipeline.model.gradients.gradient_statistics` too, and must be the same.

Records go to benchmarks/results/estimators.json, the page to docs/estimators.md.

Shapes: P rows of the pool, b rows of an estimate in micro-batches of s.
"""

import argparse
import dataclasses
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from benchmarks import machine
from pipeline import settings
from pipeline.data import packing, sources, tokenizer
from pipeline.data.batches import Mixture
from pipeline.data.shards import Corpus
from pipeline.model import checkpoint, gradients
from pipeline.model.gradient_vectors import trained
from pipeline.model.transformer import Transformer
from pipeline.runtime import atomic_files
from pipeline.training import train

ROOT = Path(__file__).resolve().parents[1]
DOMAINS = ("code", "prose", "reference")
ROWS, MICROBATCHES = (8, 16, 32, 64, 128, 256), (1, 2, 4, 8, 16, 32)
MODEL = settings.Model(layers=2, width=64, heads=2, head_width=32)
TOKENIZER = {"kind": "train", "model": "unigram", "vocabulary": 2048, "characters": 400_000}
PIECE_NUMBERS = 2**16
CHECKED = 2
"""Estimates of each kind, of the smaller sets of rows, that the pipeline makes too."""


def main() -> None:
    """Trains, measures, records and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--pool", type=int, default=384, help="rows of a domain")
    parser.add_argument("--draws", type=int, default=400, help="estimates of each kind")
    results = ROOT / "benchmarks" / "results"
    parser.add_argument("--out", type=Path, default=results / "estimators.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "estimators.md")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpora = packed(folder)
        run = trained_run(folder / "run", corpora, chosen.steps)
        found = {
            str(step): {
                domain: studied(run, corpora, domain, step, chosen.pool, chosen.draws)
                for domain in DOMAINS
            }
            for step in (chosen.steps // 10, chosen.steps)
        }
    result = {
        "model": dataclasses.asdict(MODEL),
        "steps": chosen.steps,
        "pool": chosen.pool,
        "draws": chosen.draws,
        "checkpoints": found,
        "machine": machine.described(before),
        "date": time.strftime("%Y-%m-%d"),
    }
    chosen.out.parent.mkdir(exist_ok=True)
    chosen.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    chosen.page.write_text(page(result), encoding="utf-8")
    print(page(result))


def packed(folder: Path) -> Path:
    """Three domains of the default experiment, a tokenizer of theirs; the folder of the corpora."""
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    for domain in DOMAINS:
        wanted = {**config["sources"][domain], "bytes": 600_000}
        atomic_files.write_json(folder / f"{domain}.json", wanted)
        sources.download(folder / f"{domain}.json", folder / domain)
    atomic_files.write_json(folder / "tokenizer.json", {**TOKENIZER, "validation_share": 0.1})
    model = folder / "text.model"
    tokenizer.build(folder / "tokenizer.json", [folder / d for d in DOMAINS], model)
    atomic_files.write_json(folder / "packing.json", {"validation_share": 0.1})
    for domain in DOMAINS:
        packing.pack(folder / "packing.json", folder / domain, model, folder / "corpora" / domain)
    return folder / "corpora"


def trained_run(folder: Path, corpora: Path, steps: int) -> Path:
    """A run of Mix with checkpoints after a tenth of the steps and at the end."""
    rates = {"peak_learning_rate": 1e-2, "initial_learning_rate": 1e-4, "final_learning_rate": 1e-4}
    training = {"rows": 24, "length": 64, "steps": steps, "warmup_steps": steps // 10, **rates}
    folder.mkdir()
    atomic_files.write_json(
        folder / "run.json",
        {
            "scenario": "text",
            "model_name": "nano",
            "method_name": "mix",
            "seed": 0,
            "domains": list(DOMAINS),
            "tokenizer": "text",
            "model": dataclasses.asdict(MODEL),
            "training": {**training, "checkpoint_every": steps // 10, "resume_every": steps},
            "rule": "mix",
            "method": {},
        },
    )
    train.pretrain(folder / "run.json", corpora, device="cpu", threads=1)
    return folder


def studied(
    run: Path, corpora: Path, domain: str, step: int, pool: int, draws: int
) -> dict[str, Any]:
    """Truth, and estimates in its units: mean and standard deviation by b and s."""
    model = checkpoint.load_model(run / "checkpoints" / f"step{step}").train()
    rows = Mixture({domain: Corpus.open(corpora / domain, "train")}, 64, 0, "estimators")
    tokens, _ = rows.batch(torch.tensor([pool]).numpy(), torch.tensor([0]).numpy())
    tokens_PxL1 = torch.from_numpy(tokens)
    gram_PxP = row_products(model, tokens_PxL1)
    squared_norm = float(gram_PxP.mean())
    variance = float(gram_PxP.diagonal().mean()) - squared_norm
    random = torch.Generator().manual_seed(step)
    found = []
    for b in ROWS:
        sizes = [s for s in MICROBATCHES if s <= b // 4]
        drawn = [torch.randint(pool, (b,), generator=random) for _ in range(draws)]
        for index_b in drawn[: CHECKED if b <= 32 else 0]:
            _check(model, tokens_PxL1[index_b], gram_PxP[index_b][:, index_b], sizes)
        made = [estimates(gram_PxP[index_b][:, index_b], sizes) for index_b in drawn]
        found.append(
            {
                "rows": b,
                "plug_in": _summary([one["plug_in"] / squared_norm for one in made]),
                "unbiased": {
                    s: _summary([one["unbiased"][s] / squared_norm for one in made]) for s in sizes
                },
                "variance": {
                    s: _summary([one["variance"][s] / variance for one in made]) for s in sizes
                },
                "negative": sum(one["unbiased"][1] < 0 for one in made) / draws,
            }
        )
    return {"squared_norm": squared_norm, "variance": variance, "estimates": found}


def row_products(model: Transformer, tokens_PxL1: Tensor) -> Tensor:
    """Inner products of the gradients of single rows, float64."""
    P, size = len(tokens_PxL1), sum(p.numel() for p in trained(model))
    gradient_PxD = torch.empty(P, size)
    for row, into_D in zip(tokens_PxL1, gradient_PxD, strict=True):
        g = gradients.domain_gradient(model, row[None], 1)
        torch.cat([part.flatten() for part in g.parts], out=into_D)
    gram_PxP = torch.zeros(P, P, dtype=torch.float64)
    for piece_PxN in gradient_PxD.split(PIECE_NUMBERS, dim=1):
        gram_PxP += (piece_PxN @ piece_PxN.T).double()
    return gram_PxP


def estimates(gram_bxb: Tensor, sizes: list[int]) -> dict[str, Any]:
    """What `pipeline.model.gradients` makes of rows with these inner products, by micro-batch."""
    b, plug_in = len(gram_bxb), float(gram_bxb.mean())
    variance = {}
    for s in sizes:
        # Squared norms of the micro-batches' means lie on the diagonal of the blocks' means.
        blocks_nxn = gram_bxb.view(b // s, s, b // s, s).mean(dim=(1, 3))
        squares = float(blocks_nxn.diagonal().sum()) * s
        variance[s] = (squares - b * plug_in) / (b // s - 1)
    unbiased = {s: plug_in - v / b for s, v in variance.items()}
    return {"plug_in": plug_in, "variance": variance, "unbiased": unbiased}


def _check(model: Transformer, rows_bxL1: Tensor, gram_bxb: Tensor, sizes: list[int]) -> None:
    expected = estimates(gram_bxb, sizes)
    for s in sizes:
        found = gradients.gradient_statistics(model, [rows_bxL1], s)
        pairs = (
            (found.squared_norm_K[0], expected["plug_in"]),
            (found.variance_K[0], expected["variance"][s]),
        )
        for ours, theirs in pairs:
            assert abs(float(ours) / theirs - 1) < 1e-3, "the pipeline's estimate is another"


def _summary(ratios: list[float]) -> dict[str, float]:
    return {"mean": statistics.fmean(ratios), "sd": statistics.stdev(ratios)}


PAGE = """# How far gradient statistics are off

PiKE's weights follow estimates of |grad L_k|^2 and sigma_k^2 from b_k rows of a domain. Below, each
estimate is divided by the truth: 1 is right, and the number behind ± is the standard deviation from
one set of rows to another. Made by `python -m benchmarks.estimators` ({date}, {draws} sets of rows
for each number).

The truth is that of a population: {pool} rows of each domain, from which rows are drawn with
replacement. The model has {layers} layers of width {width} and was trained with Mix for {steps}
steps on three domains of text that every Python installation carries. Rows have 64 tokens.

- *plug-in*: the squared norm of the rows' mean gradient, as in the paper. Its bias is
  variance / b_k, whatever the model.
- *unbiased*: the same minus the estimated variance / b_k
  ([0008](decisions/0008-norms-without-noise.md)), here from single rows; *below 0* says how often
  it came out negative.
- *variance*: s times the variance of the means of micro-batches of s rows. Unbiased for every s;
  what grows with s is the spread, since fewer micro-batches are left.

{tables}## Variance by micro-batch

Mean over the domains after {steps} steps, for b_k rows in micro-batches of s. Four micro-batches
are the fewest shown.

{variances}
"""


def page(result: dict[str, Any]) -> str:
    """The page that shows a record."""
    tables = ""
    for step, by_domain in result["checkpoints"].items():
        tables += f"## After {step} steps\n\n"
        tables += "| domain | variance / squared norm | rows b_k | plug-in | unbiased | below 0 |\n"
        tables += "| --- | --- | --- | --- | --- | --- |\n"
        for domain, found in by_domain.items():
            for one in found["estimates"]:
                cells = (
                    domain,
                    f"{found['variance'] / found['squared_norm']:.0f}",
                    one["rows"],
                    _shown(one["plug_in"]),
                    _shown(_at(one["unbiased"], 1)),
                    f"{one['negative']:.0%}",
                )
                tables += "| " + " | ".join(map(str, cells)) + " |\n"
        tables += "\n"
    last = list(result["checkpoints"].values())[-1]
    lines = [
        "| rows b_k | " + " | ".join(f"s = {s}" for s in MICROBATCHES) + " |",
        "| --- " * (1 + len(MICROBATCHES)) + "|",
    ]
    for place, b in enumerate(ROWS):
        of_domains = [found["estimates"][place]["variance"] for found in last.values()]
        shown = [
            _shown(
                {
                    part: statistics.fmean(_at(one, s)[part] for one in of_domains)
                    for part in ("mean", "sd")
                }
            )
            if s <= b // 4
            else ""
            for s in MICROBATCHES
        ]
        lines.append(f"| {b} | " + " | ".join(shown) + " |")
    return PAGE.format(
        **{name: result[name] for name in ("date", "draws", "pool", "steps")},
        layers=result["model"]["layers"],
        width=result["model"]["width"],
        tables=tables,
        variances="\n".join(lines),
    )


def _at(by_size: dict[Any, dict[str, float]], s: int) -> dict[str, float]:
    """Of a size, whether its name was read from JSON or not."""
    return by_size[s] if s in by_size else by_size[str(s)]


def _shown(summary: dict[str, float]) -> str:
    return f"{summary['mean']:.2f} ± {summary['sd']:.2f}"


if __name__ == "__main__":
    main()
