"""How good the finders are: fitted to public proxy runs, judged on other runs of other sizes.

    python -m benchmarks.finders [--jobs 2]

Each finder is fitted to draws of n of the training runs, for each loss as the target and for their
mean, and predicts the losses of the test runs. Scores are rank correlation, regret (loss of the run
that is predicted best, above the lowest, over that of a run at random) and slope. Intervals of 95 %
are quantiles over draws of the training runs, of the test runs and, for means over targets, of the
targets, all with replacement at once.

Record: benchmarks/results/finders.json, from which `benchmarks.finders_page` writes
docs/finders.md.

Shapes: T targets, N test runs, K domains, B resampled scores.
"""

import argparse
import dataclasses
import itertools
import multiprocessing
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks import records
from benchmarks.finder_scores import (
    MEAN,
    by_target,
    differences,
    direct,
    judged,
    repeatability,
    summary,
)
from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders import build_finder, swarm_table
from pike_mixing.finders.interface import Swarm
from pike_mixing.finders.mixing_law import MixingLaw
from pike_mixing.swarms import catalogue


@dataclasses.dataclass(frozen=True)
class Linear:
    """Least squares of the target on the mixture: what a finder should be better than."""

    slope_K: Floats

    def losses(self, weights_SxK: Floats) -> Floats:
        return weights_SxK @ self.slope_K

    def optimum(self) -> Floats:
        """The corner of the lowest prediction."""
        return np.eye(len(self.slope_K))[self.slope_K.argmin()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    config = configured("judged")
    begun = time.monotonic()
    record = benchmark(config, arguments.jobs)
    record["minutes"] = (time.monotonic() - begun) / 60
    print(f"{records.write('finders', record)}: {record['minutes']:.1f} minutes")


def configured(section: str) -> dict[str, Any]:
    """What benchmarks/finders.yaml says of one benchmark."""
    path = records.ROOT / "benchmarks" / "finders.yaml"
    return dict(yaml.safe_load(path.read_text(encoding="utf-8"))[section])


def benchmark(config: Mapping[str, Any], jobs: int) -> dict[str, Any]:
    """The record: scores of every finder, number of runs, test and target.

    `config` is the section `judged` of benchmarks/finders.yaml; `jobs` processes fit at once.
    """
    names = [*config["finders"], "linear"]
    work = [
        (dict(config), name, runs, draw)
        for runs in config["runs"]
        for name in names
        for draw in range(1 if runs == max(config["runs"]) else config["draws"])
    ]
    os.environ["OMP_NUM_THREADS"] = "1"
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        fitted = pool.starmap(predictions, work, chunksize=1)
    train, tests = swarms(config)
    targets = [*train.losses, MEAN]
    actual = {name: by_target(test.weights_and_losses()[1]) for name, test in tests.items()}
    cells, drawn = {}, {}
    for name, runs in itertools.product(names, config["runs"]):
        mine = [f for (_, n, r, _), f in zip(work, fitted, strict=True) if (n, r) == (name, runs)]
        for test in tests:
            key = f"{name}|{runs}|{test}"
            predicted = [draw["predicted"][test] for draw in mine]
            values, resampled = judged(predicted, actual[test], config["resamples"])
            cells[key], drawn[key] = summary(values, resampled, targets), resampled
        cells[f"{name}|{runs}|optimum"] = repeatability(
            [draw["optimum"] for draw in mine], config["resamples"]
        )
    return {
        "config": dict(config),
        "targets": targets,
        "rows": {"train": len(train.runs)} | {name: len(t.runs) for name, t in tests.items()},
        "cells": cells,
        "differences": differences(cells, drawn, config, targets),
        "direct": direct(tests, config["resamples"]),
    }


def swarms(config: Mapping[str, Any]) -> tuple[Swarm, dict[str, Swarm]]:
    """The training runs and the test runs by name."""
    path = catalogue.packaged_table_or_path(Path(config["table"]))

    def rows(where: Mapping[str, Any]) -> Swarm:
        return swarm_table.read_swarm(path, where={n: str(v) for n, v in where.items()})

    return rows(config["train"]), {n: rows(where) for n, where in config["tests"].items()}


def predictions(config: dict[str, Any], name: str, runs: int, draw: int) -> dict[str, Any]:
    """One draw's predictions for each test [T, N], and its optimum for each target [T, K].

    So many training runs are drawn without replacement; draw 0 is the beginning of the swarm_table.
    """
    train, tests = swarms(config)
    rows = np.arange(runs)
    if draw:
        rows = np.random.default_rng(draw).permutation(len(train.runs))[:runs]
    swarm = dataclasses.replace(train, runs=[train.runs[n] for n in rows])
    fitted = predictors(name, config["finders"].get(name, {}), swarm)
    mixtures = {test: other.weights_and_losses()[0] for test, other in tests.items()}
    return {
        "predicted": {
            test: np.stack([p.losses(weights_NxK) for p in fitted])
            for test, weights_NxK in mixtures.items()
        },
        "optimum": np.stack([optimum(predictor, len(swarm.domains)) for predictor in fitted]),
    }


def optimum(predictor: Any, K: int) -> Floats:
    """The mixture that is found; NaN where the search says that it did not reach it."""
    try:
        return predictor.optimum()
    except InputError:
        return np.full(K, np.nan)


def predictors(name: str, settings: dict[str, Any], swarm: Swarm) -> list[Any]:
    """What a finder, or `linear`, makes of a swarm for each loss as target, and for their mean."""
    M = len(swarm.losses)
    shares_TxM = np.concatenate([np.eye(M), np.full((1, M), 1 / M)])
    if name == "linear":
        weights_NxK, loss_NxM = swarm.weights_and_losses()
        slope_KxM = np.linalg.lstsq(weights_NxK, loss_NxM)[0]
        return [Linear(slope_KxM @ share_M) for share_M in shares_TxM]
    targets = [dict(zip(swarm.losses, share_M, strict=True)) for share_M in shares_TxM.tolist()]
    built = [
        build_finder.build_finder(name, settings | {"target": target}, name) for target in targets
    ]
    if isinstance(built[0], MixingLaw):
        # The laws are the same for all targets.
        program = built[0].fit(swarm)
        return [dataclasses.replace(program, target_K=share_M) for share_M in shares_TxM]
    return [finder.fit(swarm) for finder in built]  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
