"""A swarm of our own, from the draw to the verdict: predicted against measured.

    python -m benchmarks.own_swarm

Mixtures of the default experiment's installed scenario are drawn and trained at pico. The mixing
law is fitted to them, an informative design proposes the next, which are trained and judged; so are
the law's and the trees' optima, beside the best run of the swarm and equal shares, on seeds that no
fit has seen. How many of each, benchmarks/finders.yaml says. Everything goes through the workflow.

Record: benchmarks/results/own_swarm.json, for `benchmarks.finders_page`.
"""

import argparse
import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import records
from benchmarks.finders import configured
from benchmarks.records import ROOT
from benchmarks.workflow_runs import train_and_read_losses
from pike_mixing.arrays import Floats
from pike_mixing.finders import mixture_design, prediction_scores, swarm_table
from pike_mixing.finders.best_run import Best
from pike_mixing.finders.fit import fit
from pike_mixing.finders.interface import Swarm
from pike_mixing.finders.mixing_law import MixingLaw
from pike_mixing.finders.regmix import RegMix
from pipeline.planning import planner

FOLDER = ROOT / "results" / "own-swarm"
DOMAINS = ("code", "prose", "headers", "stubs", "unicode")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", type=int, default=1)
    cores, config = parser.parse_args().cores, configured("own_swarm")
    free = mixture_design.MixtureDistribution(
        np.full(len(DOMAINS), 1 / len(DOMAINS)), np.full(len(DOMAINS), np.inf)
    )
    drawn = named("drawn", free.mixtures(config["runs"], seed=0))
    losses = trained(drawn, [0], cores)
    swarm = read(FOLDER / "swarm.csv", drawn, losses)
    law, trees, best = (
        fit(finder, swarm, resamples=resamples)
        for finder, resamples in (
            (MixingLaw(kl=0), config["resamples"]),
            (RegMix(), 0),
            (Best(), 0),
        )
    )
    trained_NxK = swarm.weights_and_losses()[0]
    next_NxK = mixture_design.propose_mixtures(
        "informative", config["next"], free, trained_NxK, law.optimum_SxK
    )
    proposed = named("next", next_NxK)
    measured = trained(proposed, [0], cores)
    test = read(FOLDER / "next.csv", proposed, measured)
    actual_N = test.weights_and_losses()[1].mean(axis=1)
    predictors = {"mixing-law": law.result.predictor, "regmix": trees.result.predictor}
    predicted = {n: p.losses(next_NxK) for n, p in predictors.items() if p is not None}
    finals = {"mix": np.full(len(DOMAINS), 1 / len(DOMAINS))} | {
        name: one.result.weights_K
        for name, one in (("best-run", best), ("law", law), ("trees", trees))
    }
    verdict = trained(finals, config["seeds"], cores)
    record = {
        "domains": DOMAINS,
        "runs": config["runs"],
        "held_out": {n: f.result.diagnostics for n, f in (("law", law), ("trees", trees))},
        "gain": np.quantile(law.gain_S, [0.025, 0.975]).tolist(),
        "next": {
            "mixtures": next_NxK.tolist(),
            "actual": actual_N.tolist(),
            "predicted": {n: p.tolist() for n, p in predicted.items()},
            "scores": {
                n: prediction_scores.score_predictions(p, actual_N) for n, p in predicted.items()
            },
        },
        "finals": {
            name: {"weights": weights_K.tolist(), "losses": np.mean(verdict[name], axis=1).tolist()}
            for name, weights_K in finals.items()
        },
    }
    print(records.write("own_swarm", record))


def named(prefix: str, weights_NxK: Floats) -> dict[str, Floats]:
    return {f"{prefix}-{n:02}": weights_K for n, weights_K in enumerate(weights_NxK)}


def trained(
    methods: Mapping[str, Any], seeds: Sequence[int], cores: int, model: str = "pico"
) -> dict[str, Floats]:
    """Losses of each method [seeds, K], nats per token, trained and evaluated by the workflow.

    `methods` has settings of a rule, or the weights [K] of a fixed one, by name; `model` is one of
    the default experiment.
    """
    # Each part is an experiment of its own, which owns its folder.
    part = FOLDER / next(iter(methods))
    settings = {n: m if isinstance(m, dict) else fixed(m) for n, m in methods.items()}
    config = configuration(part, settings, seeds, model)
    folder = part / "runs" / "installed" / model
    runs = {n: [folder / n / f"seed{s}" for s in seeds] for n in methods}
    losses = train_and_read_losses(part.with_suffix(".yaml"), config, runs, cores)
    return {n: np.array([[one[d] for d in DOMAINS] for one in own]) for n, own in losses.items()}


def fixed(weights_K: Floats) -> dict[str, Any]:
    weights = dict(zip(DOMAINS, weights_K.tolist(), strict=True))
    return {"rule": "fixed", "weights_by_domain": weights}


def configuration(
    folder: Path, methods: Mapping[str, Any], seeds: Sequence[int], model: str
) -> dict[str, Any]:
    """The default experiment's scenario installed with these methods alone."""
    base = planner.read_expanded_config(ROOT / "config.yaml")
    scenario = base["scenarios"]["installed"] | {"evaluation": "losses"}
    scenario.pop("probe", None)
    runs = {"scenarios": ["installed"], "models": [model], "seeds": list(seeds)}
    return {
        "experiment": "own-swarm",
        "results": str(folder.relative_to(ROOT)),
        "sources": {domain: base["sources"][domain] for domain in DOMAINS},
        "tokenizers": {"installed": base["tokenizers"]["installed"]},
        "packing": base["packing"],
        "models": {model: base["models"][model]},
        "training": {"text": base["training"]["text"]},
        "evaluation": {"losses": base["evaluation"]["losses"]},
        "methods": dict(methods),
        "scenarios": {"installed": scenario},
        "runs": [runs | {"methods": list(methods)}],
        **{section: {} for section in ("probe", "tables", "figures")},
    }


def read(path: Path, mixtures: Mapping[str, Floats], losses: Mapping[str, Any]) -> Swarm:
    """The swarm, losses [1, K] by name, written as a table and read back as a user would."""
    header = ["run", *(f"weight/{d}" for d in DOMAINS), *(f"loss/{d}" for d in DOMAINS)]
    rows = [[name, *mixtures[name].tolist(), *losses[name][0].tolist()] for name in mixtures]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return swarm_table.read_swarm(path)


if __name__ == "__main__":
    main()
