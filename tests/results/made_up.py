"""A small results folder whose records have the shape of real ones, made from formulas."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.runtime import atomic_files

DOMAINS = {"real": ["code", "prose", "headers"], "languages": ["easy", "hard", "noise"]}
FLOORS = {"easy": math.log(2), "hard": 1.287, "noise": math.log(256)}
METHODS = {
    "mix": ("mix", {}),
    "round-robin": ("round-robin", {}),
    "pike": ("pike", {"zeta1": 0.05, "zeta2": 0.005, "every": 10, "first": 10}),
    "balanced-pike": ("balanced-pike", {"pike": {"zeta1": 0.05, "zeta2": 0.005}, "tau": 1.0}),
}
# These methods and scenarios play no part of the paper.
OWN_FIGURES = ("losses", "differences", "weights", "similarities", "gradients", "lengths")
STEPS, ROWS, LENGTH, VOCABULARY = 40, 12, 16, 512
CHECKPOINTS = [0, 5, 10, 20, 40]
DOCUMENTS = 8


def write_parquet(path, columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def build(root, seeds=(0, 1), scenarios=("real", "languages"), methods=tuple(METHODS)):
    """Writes every manifest and record below `root`/results and returns the settings' path."""
    results = root / "results"
    experiment = {
        "experiment": "miniature",
        "results": str(results),
        "config": {"seeds": list(seeds), "scenarios": {s: DOMAINS[s] for s in scenarios}},
        "runs": {},
        "corpora": {},
        "sources": {},
        "tokenizers": {},
        "rules": {"mix": "Every batch holds every domain in equal parts."},
        "fingerprints": {},
    }
    for scenario in scenarios:
        _data(results, scenario, experiment)
        for method in methods:
            for seed in seeds:
                _run(results, scenario, method, seed, experiment)
    path = results / "settings" / "experiment.json"
    atomic_files.write_json(path, experiment)
    return path


def _data(results, scenario, experiment):
    tokenizer = results / "tokenizers" / f"{scenario}.model"
    tokenizer.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.write_bytes(b"pieces of " + scenario.encode())
    sources = []
    for source in DOMAINS[scenario]:
        folder = results / "data" / source
        record = write_parquet(
            folder / "documents-00000.parquet", {"id": ["0", "1"], "text": [source, source * 2]}
        )
        sources.append(folder / atomic_files.MANIFEST)
        atomic_files.write_manifest(
            sources[-1],
            stage="download",
            settings={"kind": "synthetic" if source in FLOORS else "python", "name": source},
            inputs=[],
            files=[record],
            modules=["pipeline.runtime.atomic_files"],
            facts={
                "documents": 2,
                "bytes": 3 * len(source),
                "skipped": {},
                "entropy_nats_per_character": None,
                "revision": f"revision of {source}, which is a long story",
                "licence": "PSF-2.0",
                "versions": {"python": "3.11.7"},
            },
        )
        experiment["sources"][source] = str(folder)
    atomic_files.write_manifest(
        tokenizer.with_suffix(".json"),
        stage="tokenizer",
        settings={"name": scenario, "vocabulary": VOCABULARY},
        inputs=sources,
        files=[tokenizer],
        modules=["pipeline.runtime.atomic_files"],
        facts={"vocabulary": VOCABULARY, "versions": {"sentencepiece": "0.2.3"}},
    )
    experiment["tokenizers"][scenario] = str(tokenizer.with_suffix(".json"))
    for source in DOMAINS[scenario]:
        folder = results / "corpora" / scenario / source
        folder.mkdir(parents=True)
        (folder / "train-00000.bin").write_bytes(b"\0" * 64)
        atomic_files.write_manifest(
            folder / atomic_files.MANIFEST,
            stage="pack",
            settings={"name": source},
            inputs=[results / "data" / source / atomic_files.MANIFEST, tokenizer],
            files=[folder / "train-00000.bin"],
            modules=["pipeline.runtime.atomic_files"],
            facts=_corpus_facts(source),
        )
        experiment["corpora"][f"{scenario}/{source}"] = str(folder)


def _corpus_facts(source):
    split = {
        "shards": [],
        "tokens": 900_000,
        "documents": 900,
        "bytes": 2_000_000,
        "characters": 1_900_000,
        "unknown_tokens": 0,
        "pieces": 190,
        "entropy_nats": 4.5,
        "lengths": {"512": 700, "1024": 200},
    }
    smaller = {
        "shards": [],
        "tokens": 80_000,
        "documents": 80,
        "bytes": 180_000,
        "characters": 170_000,
    }
    return {
        "format": 1,
        "source": source,
        "tokenizer": {"sha256": "0" * 64, "vocabulary": VOCABULARY, "eos": 1},
        "dtype": "uint16",
        "splits": {"train": split, "validation": smaller},
        "uniform_nats": math.log(VOCABULARY),
        "unigram_nats": 5.75 if source == "noise" else 5.2,
        "floor_nats": FLOORS.get(source),
        "skipped": {},
        "revision": f"revision of {source}, which is a long story",
        "licence": "PSF-2.0",
        "fingerprint": f"data of {source}",
    }


def _run(results, scenario, method, seed, experiment):
    rule, values = METHODS[method]
    name = f"{scenario}/tiny/{method}/seed{seed}"
    folder = results / "runs" / name
    settings = {
        "scenario": scenario,
        "model_name": "tiny",
        "method_name": method,
        "seed": seed,
        "domains": DOMAINS[scenario],
        "tokenizer": scenario,
        "model": {"layers": 2, "width": 64, "heads": 2, "head_width": 32},
        "training": {"rows": ROWS, "length": LENGTH, "steps": STEPS, "checkpoint_every": 20},
        "rule": rule,
        "method": values,
    }
    atomic_files.write_json(folder / "run.json", settings)
    rng = np.random.default_rng([seed, *name.encode()])
    records = _training(folder, scenario, method, rng)
    weights = []
    for step in CHECKPOINTS:
        here = folder / "checkpoints" / f"step{step}"
        here.mkdir(parents=True)
        (here / "model.safetensors").write_bytes(f"{name} {step}".encode())
        sums = {"model.safetensors": atomic_files.sha256(here / "model.safetensors")}
        own = {"step": step, "identity": "i", "model": settings["model"]}
        atomic_files.write_json(
            here / atomic_files.MANIFEST, {**own, "vocabulary": VOCABULARY, "sha256": sums}
        )
        weights.append(here / "model.safetensors")
    atomic_files.write_manifest(
        folder / atomic_files.MANIFEST,
        stage="pretrain",
        settings=settings,
        inputs=[
            *(
                results / "corpora" / scenario / d / atomic_files.MANIFEST
                for d in DOMAINS[scenario]
            ),
            folder / "run.json",
        ],
        files=[*records, *weights],
        modules=["pipeline.runtime.atomic_files"],
        facts={
            "run": name,
            "domains": DOMAINS[scenario],
            "steps": STEPS,
            "tokens": STEPS * ROWS * LENGTH,
            "parameters": 131_000,
            "device": "cpu (2 threads)",
            "wall_seconds": 10.0 + seed,
            "tokens_per_second": STEPS * ROWS * LENGTH / (10.0 + seed),
            "resumes": 0,
            "data_fingerprint": f"data of {scenario}",
            "checkpoints": CHECKPOINTS,
            "weights_sha256": sums["model.safetensors"],
            "versions": {"torch": "2.13.0"},
        },
    )
    _evaluations(folder, scenario, method, rng)
    _probes(folder, scenario, rng)
    experiment["runs"][name] = {"folder": str(folder), "settings": settings}
    manifest = atomic_files.read_json(folder / atomic_files.MANIFEST)
    experiment["fingerprints"][name] = manifest["code"]["fingerprint"]


def loss(scenario, method, domain, step, noise=0.0):
    """A falling curve above the domain's floor; PiKE is best on hard, Round-Robin worst."""
    floor = FLOORS.get(domain, 3.0)
    start = math.log(VOCABULARY)
    lead = {"mix": 0.0, "round-robin": 0.3, "pike": -0.1, "balanced-pike": -0.03}[method]
    hard = domain in ("hard", "prose")
    speed = 0.12 if not hard else 0.05
    left = (start - floor) * math.exp(-speed * step)
    return floor + left + (step / STEPS) * (lead * hard + 0.15 + noise)


def _training(folder, scenario, method, rng):
    domains = DOMAINS[scenario]
    steps = list(range(STEPS))
    pairs = [(s, d) for s in steps for d in domains]
    weights = [_weight(method, s, domains.index(d), len(domains)) for s, d in pairs]
    losses = [loss(scenario, method, d, s) for s, d in pairs]
    firings = [(s, d) for s in (10, 20, 30) for d in domains] if "pike" in method else []
    noise = rng.random(len(firings))
    tables = {
        "steps": {
            "step": steps,
            "tokens": [(s + 1) * ROWS * LENGTH for s in steps],
            "loss": [float(np.mean(losses[3 * s : 3 * s + 3])) for s in steps],
            "learning_rate": [1e-3] * STEPS,
            "gradient_norm": [1.0] * STEPS,
            "seconds": [0.25] * STEPS,
            "tokens_per_second": [4.0 * ROWS * LENGTH] * STEPS,
            "model_flops_utilisation": [0.5] * STEPS,
            "memory_bytes": [2**20] * STEPS,
        },
        "domain_losses": {
            "step": [s for s, _ in pairs],
            "domain": [d for _, d in pairs],
            "loss": losses,
        },
        "weights": {
            "step": [s for s, _ in pairs],
            "domain": [d for _, d in pairs],
            "weight": weights,
            "count": [round(w * ROWS) for w in weights],
        },
        "gradient_statistics": {
            "step": pa.array([s for s, _ in firings], pa.int64()),
            "domain": pa.array([d for _, d in firings], pa.string()),
            "squared_norm": pa.array(0.5 + noise),
            "squared_norm_unbiased": pa.array(0.1 + noise - 0.2),
            "variance": pa.array(4.0 + noise),
            "loss": pa.array(3.0 + noise),
            "rows": pa.array([8] * len(firings), pa.int64()),
            "seconds": pa.array([0.1] * len(firings), pa.float64()),
        },
        "coefficients": {
            "step": pa.array([s for s, _ in firings], pa.int64()),
            "domain": pa.array([d for _, d in firings], pa.string()),
            "coefficient": pa.array([1 / len(domains)] * len(firings), pa.float64()),
        },
        "alarms": _alarms(method, domains),
        "timings": {
            "phase": ["batches", "statistics", "steps"],
            "seconds": [1.0, 0.5, 8.5],
            "share": [0.1, 0.05, 0.85],
        },
    }
    return [write_parquet(folder / f"{name}.parquet", t) for name, t in tables.items()]


def _alarms(method, domains):
    """PiKE collapses at step 19 and drops its first domain at step 29; other methods are fine."""
    rows = [
        (19, "effective-domains", None, "the mixture has collapsed; lower <zeta1>"),
        (29, "no-rows", domains[0], f"{domains[0]} had no row in the last 10 steps"),
    ]
    chosen = rows if method == "pike" else []
    names = [("step", pa.int64()), ("kind", pa.string()), ("domain", pa.string())]
    schema = pa.schema([*names, ("message", pa.string())])
    return {f.name: pa.array([r[i] for r in chosen], f.type) for i, f in enumerate(schema)}


def _weight(method, step, k, domains):
    if method == "round-robin":
        return float(step % domains == k)
    if "pike" in method and step >= 10:
        odds = [1.0, 1.0 + step / 20, 0.8]
        return odds[k] / sum(odds)
    return 1 / domains


def _of_run(folder):
    return {"run": "/".join(folder.parts[-4:]), "steps": CHECKPOINTS}


def _evaluations(folder, scenario, method, rng):
    written = []
    for step in CHECKPOINTS:
        here = folder / "evaluations" / f"step{step}"
        tables = _perplexities(scenario, method, step, rng) | _choices(scenario, step, rng)
        written += [write_parquet(here / f"{name}.parquet", t) for name, t in tables.items()]
    atomic_files.write_manifest(
        folder / "evaluations" / atomic_files.MANIFEST,
        stage="evaluate",
        settings={"items": 20},
        inputs=[folder / atomic_files.MANIFEST],
        files=written,
        modules=["pipeline.errors"],
        facts=_of_run(folder),
    )


def _perplexities(scenario, method, step, rng):
    """Documents share their difficulty between runs; a run's own noise is ten times smaller."""
    perplexities = {
        n: [] for n in ("step", "domain", "nll", "perplexity", "bits_per_byte", "tokens", "stderr")
    }
    documents = {n: [] for n in ("step", "domain", "document", "nll", "tokens", "bytes")}
    own = rng.normal(0, 0.01)
    for domain in DOMAINS[scenario]:
        shared = np.random.default_rng(list(domain.encode())).normal(0, 0.2, DOCUMENTS)
        shared -= shared.mean()
        tokens = np.full(DOCUMENTS, 100)
        means = loss(scenario, method, domain, step, own) + shared
        means += rng.normal(0, 0.02, DOCUMENTS)
        nll = float((means * tokens).sum() / tokens.sum())
        residuals = means * tokens - nll * tokens
        stderr = math.sqrt(DOCUMENTS / (DOCUMENTS - 1) * (residuals**2).sum()) / tokens.sum()
        row = (step, domain, nll, math.exp(nll), nll / math.log(2) / 2, tokens.sum(), stderr)
        for name, value in zip(perplexities, row, strict=True):
            perplexities[name].append(value)
        for i in range(DOCUMENTS):
            row = (step, domain, i, means[i] * tokens[i], tokens[i], 200)
            for name, value in zip(documents, row, strict=True):
                documents[name].append(value)
    return {"perplexities": perplexities, "documents": documents}


def _choices(scenario, step, rng):
    accuracies = {
        n: []
        for n in ("step", "task", "shots", "formulation", "metric", "value", "stderr", "examples")
    }
    choices = {
        n: []
        for n in (
            "step",
            "task",
            "shots",
            "formulation",
            "item",
            "document",
            "gold",
            "pick",
            "sum_log_likelihood",
            "unconditional",
            "tokens",
            "characters",
            "bytes",
            "shots_used",
        )
    }
    for domain in DOMAINS[scenario]:
        right = 0
        for i in range(20):
            gold, knows = i % 4, rng.random() < step / STEPS * 0.6
            pick = gold if knows else int(rng.integers(4))
            right += pick == gold
            scores = [-3.0 + (c == pick) for c in range(4)]
            row = (step, f"continue-{domain}", 0, "cf", str(i), str(i // 2), gold, pick)
            row += (scores, [-2.5] * 4, [3] * 4, [9] * 4, [9] * 4, 0)
            for name, value in zip(choices, row, strict=True):
                choices[name].append(value)
        p = right / 20
        row = (step, f"continue-{domain}", 0, "cf", "pmi", 100 * p)
        for name, value in zip(
            accuracies, (*row, 100 * math.sqrt(p * (1 - p) / 19), 20), strict=True
        ):
            accuracies[name].append(value)
    return {"accuracies": accuracies, "choices": choices}


def _probes(folder, scenario, rng):
    written = []
    domains = DOMAINS[scenario]
    pairs = [(a, b) for i, a in enumerate(domains) for b in domains[i + 1 :]]
    for step in CHECKPOINTS:
        cosine = 0.7 * math.exp(-step / 20) + 0.05 * rng.random(len(pairs))
        written.append(
            write_parquet(
                folder / "probes" / f"step{step}.parquet",
                {
                    "step": [step] * len(pairs),
                    "domain_a": [a for a, _ in pairs],
                    "domain_b": [b for _, b in pairs],
                    "cosine": cosine,
                    "ratio": 1 + rng.random(len(pairs)),
                    "cosine_corrected": cosine * 1.2,
                },
            )
        )
    atomic_files.write_manifest(
        folder / "probes" / atomic_files.MANIFEST,
        stage="probe",
        settings={"rows": 16},
        inputs=[folder / atomic_files.MANIFEST],
        files=written,
        modules=["pipeline.errors"],
        facts=_of_run(folder),
    )
