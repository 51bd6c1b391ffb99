"""Do losses of larger runs follow from smaller ones? A public table, its largest full row judged.

    python -m benchmarks.scaling dmsl_llm_slimpajama.csv

The table is data/dmsl_llm_slimpajama.csv of meiqwq/Explaining-Data-Mixing-Scaling-Laws on GitHub
(c2bf110): seven domains of SlimPajama, 122M to 2.7B parameters, losses over tokens. Judged are the
20 runs of 1.235B parameters at their last step, target the mean of the seven losses. The mixing law
is fitted to the last losses of one smaller size, or to what nested laws of all sizes up to one say
of 1.235B parameters and 46B tokens.

Record: benchmarks/results/scaling.json, for `benchmarks.finders_page`.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import records
from benchmarks.finders import configured
from pike_mixing.finders import prediction_scores, swarm_table
from pike_mixing.finders.fit import fit
from pike_mixing.finders.interface import Swarm
from pike_mixing.finders.loss_scaling import extrapolate_long_curves
from pike_mixing.finders.mixing_law import MixingLaw

DOMAINS = ("arxiv", "book", "c4", "github", "commoncrawl", "stackexchange", "wikipedia")


def main() -> None:
    path, config = Path(sys.argv[1]), configured("scaling")
    ((parameters, tokens),) = config["judged"].items()
    test = rows(path, model_size=parameters, n_tokens=tokens)
    swarms = {
        f"{float(size) / 1e6:.0f}M alone": rows(path, model_size=size, n_tokens=last)
        for size, last in config["alone"].items()
    }
    at = {"parameters": float(parameters), "tokens": float(tokens)}
    for size in config["nested"]:
        small = rows(path, model_size=f"0..{size}")
        swarms[f"nested up to {float(size) / 1e6:.0f}M"] = extrapolate_long_curves(small, at)
    record = {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "runs": len(test.runs),
        "scores": {
            name: judged(swarm, test, config["resamples"]) for name, swarm in swarms.items()
        },
    }
    records.write("scaling", record)


def rows(path: Path, **where: str) -> Swarm:
    return swarm_table.read_swarm(
        path,
        DOMAINS,
        where=where,
        weight="weight_*",
        loss="*_loss",
        sizes={"parameters": "model_size", "tokens": "n_tokens"},
        skip_unmeasured=True,
    )


def judged(swarm: Swarm, test: Swarm, resamples: int) -> dict[str, Any]:
    """The law of one table, judged by another; `rmse` in nats, its interval over the rows."""
    predictor = fit(MixingLaw(target=dict.fromkeys(DOMAINS, 1.0)), swarm, resamples=0).result
    assert predictor.predictor is not None
    weights_NxK, loss_NxM = test.weights_and_losses()
    predicted_N, actual_N = predictor.predictor.losses(weights_NxK), loss_NxM.mean(axis=1)
    square_N = (predicted_N - actual_N) ** 2
    rows_SxN = np.random.default_rng(0).integers(0, len(square_N), (resamples, len(square_N)))
    error = prediction_scores.value_with_interval(
        square_N.mean() ** 0.5, square_N[rows_SxN].mean(axis=1) ** 0.5
    )
    return {
        "rmse": error,
        **prediction_scores.score_predictions(predicted_N, actual_N, resamples=resamples),
    }


if __name__ == "__main__":
    main()
