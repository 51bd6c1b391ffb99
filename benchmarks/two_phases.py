"""Is a second phase worth it? A schedule found from two-phase runs, against static mixtures.

    python -m benchmarks.two_phases

Pico runs of the default experiment's scenario `installed` train on two drawn mixtures, one
after the other. The mixing law is fitted to both phases, and to the mean exposures alone. At nano
and on seeds that no fit has seen, the schedule that is found is trained, beside the same
phases in reverse order and the same exposure without phases (so the order alone differs), the
static mixture that the law finds, and equal shares.

Record: benchmarks/results/two_phases.json, for `benchmarks.finders_page`.
"""

import argparse
from typing import Any

import numpy as np

from benchmarks import records
from benchmarks.finders import configured
from benchmarks.own_swarm import DOMAINS, trained
from pike_mixing.arrays import Floats
from pike_mixing.finders.fit import fit
from pike_mixing.finders.interface import Proxy, Swarm
from pike_mixing.finders.mixing_law import MixingLaw

SHARES = (0.5, 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", type=int, default=1)
    cores, config = parser.parse_args().cores, configured("two_phases")
    runs = config["runs"]
    K, random = len(DOMAINS), np.random.default_rng(7)
    weights_NxPxK = random.dirichlet(np.ones(K), (runs, 2))
    methods = {f"two-phase-{n:02}": scheduled(w) for n, w in enumerate(weights_NxPxK)}
    losses = [loss_SxK[0] for loss_SxK in trained(methods, [0], cores).values()]
    phased = swarm(weights_NxPxK.reshape(runs, -1) / 2, losses, SHARES)
    static = swarm(weights_NxPxK.mean(axis=1), losses, (1.0,))
    law = MixingLaw(kl=config["kl"])
    both, alone = (fit(law, one, resamples=0) for one in (phased, static))
    found_PxK = both.result.weights_K.reshape(2, K) * 2
    finals: dict[str, Any] = {
        "schedule": scheduled(found_PxK),
        "reversed": scheduled(found_PxK[::-1]),
        "same-exposure": found_PxK.mean(axis=0),
        "static": alone.result.weights_K,
        "equal": np.full(K, 1 / K),
    }
    verdict = trained(finals, config["seeds"], cores, model="nano")
    record = {
        "runs": runs,
        "domains": DOMAINS,
        "phases": found_PxK.tolist(),
        "static": alone.result.weights_K.tolist(),
        "held_out": {
            name: one.result.diagnostics["held_out_spearman"]
            for name, one in (("phased", both), ("static", alone))
        },
        "losses": {name: loss_SxK.mean(axis=1).tolist() for name, loss_SxK in verdict.items()},
    }
    print(records.write("two_phases", record))


def scheduled(weights_PxK: Floats) -> dict[str, Any]:
    points = [dict(zip(DOMAINS, weights_K.tolist(), strict=True)) for weights_K in weights_PxK]
    return {"rule": "schedule", "points": points, "at": [0.0, SHARES[0]]}


def swarm(exposure_NxK: Floats, losses: list[Floats], phases: tuple[float, ...]) -> Swarm:
    """The runs by their exposures to each domain in each phase; phases are their shares."""
    names = tuple(f"{p}/{d}" for p in range(len(phases)) for d in DOMAINS)
    runs = [
        Proxy(f"{n:02}", weights_K=w, loss_K=loss)
        for n, (w, loss) in enumerate(zip(exposure_NxK, losses, strict=True))
    ]
    return Swarm(names, runs, DOMAINS, phases)


if __name__ == "__main__":
    main()
