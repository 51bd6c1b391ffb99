"""Does a law of epochs know what a law of weights does not? As benchmarks/repetition.yaml asks.

    nice -n 19 python -m benchmarks.repetition [--cores 1]

Writes the texts and a configuration into results/repetition, has the workflow train, fits, and
trains what was chosen for eight times the tokens.

Record: benchmarks/results/repetition.json.
"""

import argparse
import dataclasses
import json
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import yaml

from benchmarks import records
from benchmarks.records import ROOT
from benchmarks.workflow_runs import train_and_read_losses
from pike_mixing.arrays import Floats
from pike_mixing.comparison import mean_difference, p_values
from pike_mixing.finders import mixture_design
from pike_mixing.finders.exposure_law import ExposureLaw
from pike_mixing.finders.gaussian_process import GaussianProcess
from pike_mixing.finders.interface import Inventory, Proxy, Swarm
from pike_mixing.finders.mixing_law import MixingLaw
from pipeline.data import sources

FOLDER = ROOT / "results" / "repetition"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", type=int, default=1)
    cores = parser.parse_args().cores
    begun = time.monotonic()
    plan = yaml.safe_load((ROOT / "benchmarks" / "repetition.yaml").read_text(encoding="utf-8"))
    domains, count = tuple(plan["domains"]), len(plan["documents"])
    write_texts(plan)
    K = len(domains)
    draw = mixture_design.MixtureDistribution(np.full(K, 1 / K), np.full(K, np.inf))
    chosen = plan["mixtures"]
    weights = {a: draw.mixtures(chosen["count"], chosen["seed"] + a).round(4) for a in range(count)}
    methods = {a: {f"{n:02}": w / w.sum() for n, w in enumerate(weights[a])} for a in weights}
    recipe = plan["recipe"]
    losses = trained(plan, "short", recipe, methods, [plan["seed"]], cores)
    tokens = recipe["rows"] * recipe["length"] * recipe["steps"]
    swarms = {}
    for a, by_name in methods.items():
        text_K = available(plan, a)
        runs = [
            Proxy(f"{a}-{n}", w, losses[a][n][0], tokens=tokens, available_K=text_K)
            for n, w in by_name.items()
        ]
        swarms[a] = Swarm(domains, runs)
    every = Swarm(domains, [run for swarm in swarms.values() for run in swarm.runs])
    times = plan["long"]["times"]
    picks = {a: picked(a, swarms, every, tokens * times) for a in swarms}
    steps = {name: recipe[name] * times for name in ("steps", "warmup_steps")}
    final = trained(plan, "long", recipe | steps, picks, plan["long"]["seeds"], cores)
    ends = {
        name: np.array([final[a][name].mean(axis=1) for a in final]).T.tolist() for name in picks[0]
    }
    record = {
        "tokens": tokens,
        "available": {a: available(plan, a).tolist() for a in swarms},
        "picked": {a: {n: w.tolist() for n, w in one.items()} for a, one in picks.items()},
        "losses": ends,
        **outcomes(plan, left_out(swarms), ends),
        "minutes": (time.monotonic() - begun) / 60,
    }
    print(records.write("repetition", record))


def write_texts(plan: Mapping[str, Any]) -> None:
    """Validation text of each domain, and as many training documents as each assignment has."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, values in plan["domains"].items():
        source = sources.parse_source({"kind": "python", **values}, f"domains.{name}")
        size, texts = 0, []
        for document in source.read(Counter(), []):
            texts.append(document.text)
            size += len(document.text.encode())
            if size >= values["bytes"]:
                break
        # Files are read in the order of their names: neighbours are alike.
        order = np.random.default_rng(0).permutation(len(texts))
        held = plan["validation_documents"]
        parts = {"validation": order[:held]}
        parts |= {str(n): order[held : held + n] for n in plan["documents"]}
        if len(order) < held + max(plan["documents"]):
            raise SystemExit(f"{name}: {len(order)} documents are too few")
        for part, rows in parts.items():
            lines = [json.dumps({"text": texts[row]}) for row in rows]
            (FOLDER / f"{name}-{part}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def names(plan: Mapping[str, Any], a: int) -> list[str]:
    """The sources of an assignment, in the order of the domains."""
    documents = plan["documents"]
    return [
        f"{name}-{documents[(a + k) % len(documents)]}" for k, name in enumerate(plan["domains"])
    ]


def available(plan: Mapping[str, Any], a: int) -> Floats:
    """Training tokens of each domain, as packing counted them."""
    found = []
    for name in names(plan, a):
        (path,) = FOLDER.glob(f"short/corpora/*/{name}/manifest.json")
        manifest = json.loads(path.read_text(encoding="utf-8"))
        found.append(float(manifest["splits"]["train"]["tokens"]))
    return np.array(found)


def trained(
    plan: Mapping[str, Any],
    part: str,
    recipe: Mapping[str, Any],
    methods: Mapping[int, Mapping[str, Floats]],
    seeds: list[int],
    cores: int,
) -> dict[int, dict[str, Floats]]:
    """Validation losses [seeds, K] by assignment and method, trained by the workflow."""
    config = configuration(plan, part, recipe, methods, seeds)
    folder = FOLDER / part / "runs"
    runs = {
        (a, n): [folder / f"{part}-{a}" / "pico" / f"{part}-{a}-{n}" / f"seed{s}" for s in seeds]
        for a, one in methods.items()
        for n in one
    }
    losses = train_and_read_losses(FOLDER / f"{part}.yaml", config, runs, cores)
    result: dict[int, dict[str, Floats]] = {a: {} for a in methods}
    for (a, n), of_seeds in losses.items():
        result[a][n] = np.array([[one[d] for d in names(plan, a)] for one in of_seeds])
        if not np.isfinite(result[a][n]).all():
            raise SystemExit(f"{part}-{a}-{n} ended without a number")
    return result


def configuration(
    plan: Mapping[str, Any],
    part: str,
    recipe: Mapping[str, Any],
    methods: Mapping[int, Mapping[str, Floats]],
    seeds: list[int],
) -> dict[str, Any]:
    """A scenario for each assignment, a method for each of its mixtures."""
    training = {**recipe, "checkpoint_every": recipe["steps"], "resume_every": recipe["steps"]}
    fixed = {
        f"{part}-{a}-{n}": {
            "rule": "fixed",
            "weights_by_domain": dict(zip(names(plan, a), w.tolist(), strict=True)),
        }
        for a, one in methods.items()
        for n, w in one.items()
    }
    most = max(plan["documents"])
    texts = FOLDER.relative_to(ROOT)
    text = {"tokenizer": "text", "training": part, "evaluation": "last"}
    return {
        "experiment": "repetition",
        # Each part is an experiment of its own, which owns its folder.
        "results": str((FOLDER / part).relative_to(ROOT)),
        "compare": {"baseline": next(iter(fixed))},
        "sources": {
            f"{name}-{n}": {
                "kind": "local",
                "files": str(texts / f"{name}-{n}.jsonl"),
                "validation_files": str(texts / f"{name}-validation.jsonl"),
            }
            for name in plan["domains"]
            for n in plan["documents"]
        },
        "tokenizers": {
            "text": {
                "kind": "train",
                "sources": [f"{name}-{most}" for name in plan["domains"]],
                "model": "unigram",
                "vocabulary": 512,
                "characters": 400_000,
                "newlines": True,
            }
        },
        "packing": {"validation_share": 0.2},
        "models": {"pico": {"layers": 1, "width": 32, "heads": 2, "head_width": 16}},
        "training": {part: {**training, "statistics_microbatch": 2, "rounding": "systematic"}},
        "evaluation": {"last": {"rows": 320, "batch_tokens": 8192, "checkpoints": "last"}},
        "methods": fixed,
        "scenarios": {
            f"{part}-{a}": {"about": f"Assignment {a}", "domains": names(plan, a), **text}
            for a in methods
        },
        "runs": [
            {
                "scenarios": [f"{part}-{a}"],
                "models": ["pico"],
                "methods": [f"{part}-{a}-{n}" for n in one],
                "seeds": seeds,
            }
            for a, one in methods.items()
        ],
        **{section: {} for section in ("probe", "tables", "figures")},
    }


def picked(a: int, swarms: Mapping[int, Swarm], every: Swarm, tokens: float) -> dict[str, Floats]:
    """What each fit chooses for a training of so many tokens of an assignment's text."""
    own = swarms[a]
    weights_NxK, loss_NxK = own.weights_and_losses()
    text_K = own.runs[0].available_K
    assert text_K is not None
    goal = dataclasses.replace(every, final=Inventory(tokens, text_K))
    return {
        "equal": own.uniform_weights(),
        "best-run": weights_NxK[loss_NxK.mean(axis=1).argmin()],
        "exposure-law": ExposureLaw().fit(goal).optimum(),
        "mixing-law": MixingLaw(kl=0).fit(own).optimum(),
        "gaussian-process": GaussianProcess().fit(own).optimum(),
    }


def permuted(swarm: Swarm) -> Swarm:
    """The runs of a swarm, with the amount of text of each domain given to the next."""
    runs = [
        dataclasses.replace(run, available_K=np.roll(np.asarray(run.available_K), 1))
        for run in swarm.runs
    ]
    return Swarm(swarm.domains, runs)


def left_out(swarms: Mapping[int, Swarm]) -> dict[str, Floats]:
    """Absolute errors [assignments, runs] of predictions from the runs of the other assignments."""
    result: dict[str, list[Floats]] = {}
    for a, test in swarms.items():
        runs = [run for b, swarm in swarms.items() if b != a for run in swarm.runs]
        train = Swarm(test.domains, runs)
        weights_NxK, loss_NxK = test.weights_and_losses()
        fits = {
            "exposure-law": ExposureLaw().fit(train),
            "permuted": ExposureLaw().fit(permuted(train)),
            "mixing-law": MixingLaw(kl=0).fit(train),
            "gaussian-process": GaussianProcess().fit(train),
        }
        for name, fitted in fits.items():
            epochs_NxK = (permuted(test) if name == "permuted" else test).epochs_of_runs()
            error_N = fitted.losses(weights_NxK, epochs_NxK) - loss_NxK.mean(axis=1)
            result.setdefault(name, []).append(np.abs(error_N))
    return {name: np.array(errors) for name, errors in result.items()}


def outcomes(
    plan: Mapping[str, Any], errors: Mapping[str, Floats], ends: Mapping[str, Any]
) -> dict[str, Any]:
    """Each hypothesis's difference, half of its 95 % interval and p-value after Holm."""
    ends_SxA = {name: np.array(values) for name, values in ends.items()}
    ours_A = ends_SxA["exposure-law"].mean(axis=0)
    apart = {
        "other-inventories": (errors["exposure-law"] - errors["mixing-law"]).mean(axis=1),
        "longer": ours_A - ends_SxA["mixing-law"].mean(axis=0),
        "over-equal-shares": ours_A - ends_SxA["equal"].mean(axis=0),
        "permuted": (errors["permuted"] - errors["exposure-law"]).mean(axis=1),
        "against-process": ours_A - ends_SxA["gaussian-process"].mean(axis=0),
        "against-best-run": ours_A - ends_SxA["best-run"].mean(axis=0),
    }
    found = {name: _over_assignments(values_A) for name, values_A in apart.items()}
    asked = list(plan["hypotheses"])
    adjusted = p_values.holm_adjusted([found[name][2] for name in asked])
    return {
        "errors": {name: float(error.mean()) for name, error in errors.items()},
        "outcomes": {
            name: {
                "difference": value,
                "half": half,
                "p": dict(zip(asked, adjusted, strict=True)).get(name),
                **plan["hypotheses"].get(name, {}),
            }
            for name, (value, half, _) in found.items()
        },
    }


def _over_assignments(value_A: Floats) -> tuple[float, float | None, float | None]:
    """Assignments are drawn, the texts are not: their spread alone is the error."""
    part = mean_difference.differences_of_sums(
        np.repeat(value_A[:, None], 2, axis=1), np.ones(2), np.arange(2)
    )
    found = mean_difference.estimate([part])
    return found.difference, mean_difference.half_width(found), p_values.p_value(found)


if __name__ == "__main__":
    main()
