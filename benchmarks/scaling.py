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
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import ROOT
from pike_mixing.finders import scores, table
from pike_mixing.finders.fit import fit
from pike_mixing.finders.interface import Swarm
from pike_mixing.finders.mixing_law import MixingLaw
from pike_mixing.finders.scaling import extrapolated

RECORD = ROOT / "benchmarks" / "results" / "scaling.json"
DOMAINS = ("arxiv", "book", "c4", "github", "commoncrawl", "stackexchange", "wikipedia")
LAST = {"1.22e8": "2e10", "3.1e8": "2e10", "6.8e8": "2.592e10", "1.235e9": "4.608e10"}
"""Tokens at the last step, by size."""
AT = {"parameters": 1.235e9, "tokens": 4.608e10}


def main() -> None:
    """Fits, judges, records."""
    path = Path(sys.argv[1])
    test = rows(path, model_size="1.235e9", n_tokens=LAST["1.235e9"])
    result = {
        f"{float(size) / 1e6:.0f}M alone": judged(
            rows(path, model_size=size, n_tokens=LAST[size]), test
        )
        for size in ("1.22e8", "3.1e8", "6.8e8")
    }
    for size in ("6.8e8", "9.37e8"):
        small = rows(path, model_size=f"0..{size}")
        result[f"nested up to {float(size) / 1e6:.0f}M"] = judged(extrapolated(small, AT), test)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    record = {"sha256": digest, "runs": len(test.runs), "scores": result}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def rows(path: Path, **where: str) -> Swarm:
    """The table's rows with these values."""
    return table.read(
        path,
        DOMAINS,
        where=where,
        weight="weight_*",
        loss="*_loss",
        sizes={"parameters": "model_size", "tokens": "n_tokens"},
        skip_unmeasured=True,
    )


def judged(swarm: Swarm, test: Swarm) -> dict[str, Any]:
    """The law of one table, judged by another; `rmse` in nats."""
    predictor = fit(MixingLaw(target=dict.fromkeys(DOMAINS, 1.0)), swarm, resamples=0).result
    assert predictor.predictor is not None
    weights_NxK, loss_NxM = test.arrays()
    predicted_N, actual_N = predictor.predictor.losses(weights_NxK), loss_NxM.mean(axis=1)
    error = float(np.sqrt(np.mean((predicted_N - actual_N) ** 2)))
    return {"rmse": error, **asdict(scores.judge(predicted_N, actual_N))}


if __name__ == "__main__":
    main()
