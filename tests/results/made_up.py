"""A small results folder whose records have the shape of real ones, made from formulas."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.results import archive
from pipeline.runtime import atomic_files, made_from

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
DOCUMENTS = 24


def write_parquet(path, columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def seal(path, manifest):
    """Enters a file as it is now in a manifest above or beside it, as if a stage had written it."""
    content = atomic_files.read_json(manifest)
    entry = {"bytes": path.stat().st_size, "sha256": atomic_files.sha256(path)}
    content["files"][str(path.relative_to(manifest.parent))] = entry
    atomic_files.write_json(manifest, content)


def write_output(kind, name, database, folder, /, **values):
    """Writes a `table` or `figure` below a folder, as the workflow does; returns its place."""
    write, suffix = archive.KINDS[kind]
    settings = folder / "settings" / f"{kind}s" / f"{name}.json"
    atomic_files.write_json(settings, {"name": name, **values})
    out = folder / f"{kind}s" / f"{name}{suffix}"
    write(settings, database, out)
    return out


def build(root, seeds=(0, 1, 2), scenarios=("real", "languages"), methods=tuple(METHODS)):
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
    }
    for scenario in scenarios:
        _data(results, scenario, experiment)
        for method in methods:
            for seed in seeds:
                _run(results, scenario, method, seed, experiment)
    path = results / "settings" / "experiment.json"
    atomic_files.write_json(path, experiment)
    return path


def _manifest(folder, stage, settings, inputs, files, facts):
    path = folder if folder.suffix else folder / atomic_files.MANIFEST
    taken = made_from.InputSnapshot(stage, ["pipeline.errors"], inputs=inputs)
    taken.write_manifest(path, settings=settings, files=files, facts=facts)
    return path


def _data(results, scenario, experiment):
    tokenizer = results / "tokenizers" / f"{scenario}.model"
    tokenizer.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.write_bytes(b"pieces of " + scenario.encode())
    sources = {}
    for source in DOMAINS[scenario]:
        folder = results / "data" / source
        documents = {"id": ["0", "1"], "text": [source, source * 2]}
        record = write_parquet(folder / "documents.parquet", documents)
        settings = {"kind": "synthetic" if source in FLOORS else "python", "name": source}
        facts = {"documents": 2, "bytes": 3 * len(source)}
        facts |= {"skipped": {}, "entropy_nats_per_character": None}
        sources[source] = _manifest(
            folder, "download", settings, [], [record], facts | _origin(source)
        )
        experiment["sources"][source] = str(folder)
    made = _manifest(
        tokenizer.with_suffix(".json"), "tokenizer", {"name": scenario, "vocabulary": VOCABULARY},
        list(sources.values()), [tokenizer],
        {"vocabulary": VOCABULARY},
    )  # fmt: skip
    experiment["tokenizers"][scenario] = str(made)
    for source in DOMAINS[scenario]:
        folder = results / "corpora" / scenario / source
        folder.mkdir(parents=True)
        (folder / "train-00000.bin").write_bytes(b"\0" * 64)
        files, inputs = [folder / "train-00000.bin"], [sources[source], tokenizer]
        _manifest(folder, "pack", {"name": source}, inputs, files, _corpus_facts(source))
        experiment["corpora"][f"{scenario}/{source}"] = str(folder)


def _origin(source):
    return {"revision": f"revision of {source}, which is a long story", "licence": "PSF-2.0"}


def _corpus_facts(source):
    train = {
        "shards": [], "tokens": 900_000, "documents": 900, "bytes": 2_000_000,
        "characters": 1_900_000, "unknown_tokens": 0, "pieces": 190, "entropy_nats": 4.5,
        "lengths": {"512": 700, "1024": 200},
    }  # fmt: skip
    smaller = {"tokens": 80_000, "documents": 80, "bytes": 180_000, "characters": 170_000}
    return _origin(source) | {
        "format": 2,
        "source": source,
        "tokenizer": {"sha256": "0" * 64, "vocabulary": VOCABULARY, "eos": 1},
        "dtype": "uint16",
        "splits": {
            "train": train,
            "validation": {"shards": [], **smaller, "largest_share": 0.025},
            # Of a small source it may be empty.
            "search": {"shards": [], **dict.fromkeys(smaller, 0 if source == "noise" else 9_000)},
        },
        "uniform_nats": math.log(VOCABULARY),
        "unigram_nats": 5.75 if source == "noise" else 5.2,
        "floor_nats": FLOORS.get(source),
        "skipped": {},
        "warnings": ["little text, <19> documents"] if source == "noise" else [],
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
        own = {"format": 2, "step": step, "identity": "i", "model": settings["model"]}
        atomic_files.write_json(
            here / atomic_files.MANIFEST, {**own, "vocabulary": VOCABULARY, "sha256": sums}
        )
        weights.append(here / "model.safetensors")
    corpora = [results / "corpora" / scenario / d / "manifest.json" for d in DOMAINS[scenario]]
    facts = {
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
    }
    inputs, files = [*corpora, folder / "run.json"], [*records, *weights]
    _manifest(folder, "pretrain", settings, inputs, files, facts)
    _evaluations(folder, scenario, method, rng)
    _probes(folder, scenario, rng)
    experiment["runs"][name] = {"folder": str(folder), "settings": settings}


def loss(scenario, method, domain, step, noise=0.0):
    """A falling curve above the domain's floor; PiKE is best on hard, Round-Robin worst."""
    floor = FLOORS.get(domain, 3.0)
    start = math.log(VOCABULARY)
    lead = {"mix": 0.0, "round-robin": 0.3, "pike": -0.1, "balanced-pike": -0.03}[method]
    hard = domain in ("hard", "prose")
    speed = 0.12 if not hard else 0.05
    left = (start - floor) * math.exp(-speed * step)
    return floor + left + (step / STEPS) * (lead * hard + 0.15 + noise)


def columns(names, rows, kinds=None):
    """Rows as columns by their names; `kinds` are types where there may be no row."""
    turned = zip(*rows, strict=True) if rows else [[]] * len(names.split())
    return {
        name: pa.array(values, kinds and kinds[i])
        for i, (name, values) in enumerate(zip(names.split(), turned, strict=True))
    }


def _training(folder, scenario, method, rng):
    domains, steps = DOMAINS[scenario], range(STEPS)
    pairs = [(s, d) for s in steps for d in domains]
    weights = [_weight(method, s, domains.index(d), len(domains)) for s, d in pairs]
    losses = [loss(scenario, method, d, s) for s, d in pairs]
    firings = [(s, d) for s in (10, 20, 30) for d in domains] if "pike" in method else []
    noise = rng.random(len(firings))
    tokens = ROWS * LENGTH
    place, number = [pa.int64(), pa.string()], pa.float64()
    tables = {
        "steps": columns(
            "step tokens loss learning_rate gradient_norm seconds tokens_per_second "
            "model_flops_utilisation memory_bytes",
            [
                (s, (s + 1) * tokens, float(np.mean(losses[3 * s : 3 * s + 3])), 1e-3, 1.0, 0.25,
                 4.0 * tokens, 0.5, 2**20)
                for s in steps
            ],
        ),
        "domain_losses": columns(
            "step domain loss", [(*pair, own) for pair, own in zip(pairs, losses, strict=True)]
        ),
        "weights": columns(
            "step domain weight count",
            [
                (s, d, w, 0 if method == "pike" and s > 28 and d == domains[0] else round(w * ROWS))
                for (s, d), w in zip(pairs, weights, strict=True)
            ],
        ),
        "gradient_statistics": columns(
            "step domain squared_norm squared_norm_unbiased variance loss rows seconds",
            [
                (*pair, 0.5 + n, 0.1 + n - 0.2, 4.0 + n, 3.0 + n, 8, 0.1)
                for pair, n in zip(firings, noise, strict=True)
            ],
            [*place, number, number, number, number, pa.int64(), number],
        ),
        "coefficients": columns(
            "step domain coefficient", [(*pair, 1 / len(domains)) for pair in firings],
            [*place, number],
        ),
        "alarms": _alarms(method, domains),
        "timings": columns(
            "phase seconds share",
            [("batches", 1.0, 0.1), ("statistics", 0.5, 0.05), ("steps", 8.5, 0.85)],
        ),
    }  # fmt: skip
    return [write_parquet(folder / f"{name}.parquet", t) for name, t in tables.items()]


def _alarms(method, domains):
    """PiKE warns at step 19 and has dropped its first domain from step 29 on; others are fine."""
    rows = [
        (19, "effective-domains", None, "the mixture has collapsed; lower <zeta1>"),
        (29, "no-rows", domains[0], f"{domains[0]} had no row in the last 10 steps"),
    ]
    kinds = [pa.int64(), pa.string(), pa.string(), pa.string()]
    return columns("step kind domain message", rows if method == "pike" else [], kinds)


def _weight(method, step, k, domains):
    if method == "round-robin":
        return float(step % domains == k)
    if "pike" in method and step >= 10:
        odds = [1.0, 1.0 + step / 20, 0.8]
        return odds[k] / sum(odds)
    return 1 / domains


def _evaluations(folder, scenario, method, rng):
    written = []
    for step in CHECKPOINTS:
        here = folder / "evaluations" / f"step{step}"
        tables = _perplexities(scenario, method, step, rng) | _choices(scenario, step, rng)
        written += [write_parquet(here / f"{name}.parquet", t) for name, t in tables.items()]
    _measured(folder, "evaluations", "evaluate", {"items": 20}, written)


def _measured(folder, part, stage, settings, written):
    facts = {"run": "/".join(folder.parts[-4:]), "steps": CHECKPOINTS}
    _manifest(folder / part, stage, settings, [folder / atomic_files.MANIFEST], written, facts)


def _perplexities(scenario, method, step, rng):
    """Documents share their difficulty between runs; a run's own noise is ten times smaller."""
    perplexities, documents = [], []
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
        bits = nll / math.log(2) / 2
        perplexities.append((step, domain, nll, math.exp(nll), bits, tokens.sum(), stderr))
        documents += [
            (step, domain, i, means[i] * tokens[i], tokens[i], 200) for i in range(DOCUMENTS)
        ]
    names = "step domain nll perplexity bits_per_byte tokens stderr"
    return {
        "perplexities": columns(names, perplexities),
        "documents": columns("step domain document nll tokens bytes", documents),
    }


def _choices(scenario, step, rng):
    accuracies, choices = [], []
    for domain in DOMAINS[scenario]:
        asked, right = (step, f"continue-{domain}", 0, "cf"), 0
        for i in range(20):
            gold, knows = i % 4, rng.random() < step / STEPS * 0.6
            pick = gold if knows else int(rng.integers(4))
            right += pick == gold
            scores = [-3.0 + (c == pick) for c in range(4)]
            lists = (scores, [-2.5] * 4, [3] * 4, [9] * 4, [9] * 4)
            choices.append((*asked, str(i), str(i // 2), gold, pick, *lists, 0))
        p = right / 20
        accuracies.append((*asked, "pmi", 100 * p, 100 * math.sqrt(p * (1 - p) / 19), 20))
    names = "step task shots formulation"
    return {
        "accuracies": columns(f"{names} metric value stderr examples", accuracies),
        "choices": columns(
            f"{names} item document gold pick sum_log_likelihood unconditional tokens characters "
            "bytes shots_used",
            choices,
        ),
    }


def _probes(folder, scenario, rng):
    written = []
    pairs = list(itertools.combinations(DOMAINS[scenario], 2))
    for step in CHECKPOINTS:
        cosines = 0.7 * math.exp(-step / 20) + 0.05 * rng.random(len(pairs))
        ratios = 1 + rng.random(len(pairs))
        rows = [
            (step, *pair, cosine, ratio, cosine * 1.2)
            for pair, cosine, ratio in zip(pairs, cosines, ratios, strict=True)
        ]
        names = "step domain_a domain_b cosine ratio cosine_corrected"
        place = folder / "probes" / f"step{step}.parquet"
        written.append(write_parquet(place, columns(names, rows)))
    _measured(folder, "probes", "probe", {"rows": 16}, written)
