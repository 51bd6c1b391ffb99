"""Files as harnesses write them, of scores given by hand."""

import hashlib
import json

import pyarrow as pa
from pyarrow import parquet

DATE = "2026-11-28T10-00-00.000001"


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def line(n, values, *, filter_="none", prompt="", document=None, **doc):
    """A line of samples: keys and their order as version 0.4.13 has them."""
    text = f"document {document if document is not None else n}"
    row = {
        "doc_id": n,
        "doc": {"question": text, "say": ', "filter": "none"', **doc},
        "target": "1",
        "arguments": {"gen_args_0": {"arg_0": f"{prompt}{text}", "arg_1": " yes"}},
        "resps": [[["-1.5", "False"]]],
        "filtered_resps": [["-1.5", "False"]],
        "filter": filter_,
        "metrics": list(values),
        "doc_hash": sha(text),
        "prompt_hash": sha(prompt + text),
        "target_hash": sha("1"),
    }
    return json.dumps({**row, **values}, ensure_ascii=False) + "\n"


def write(folder, tasks, *, metrics=None, version=1, date=DATE, model=None):
    """An evaluation's folder: lines of samples by task, and the results file; returns the folder.

    `model` are the arguments for the model, as text or by name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    metrics = metrics or {"acc": ("mean", True), "acc_norm": ("mean", True)}
    for task, lines in tasks.items():
        (folder / f"samples_{task}_{date}.jsonl").write_text("".join(lines), encoding="utf-8")
    listed = [
        {"metric": name, "aggregation": how, "higher_is_better": higher}
        for name, (how, higher) in metrics.items()
    ]
    counts = {
        task: len({json.loads(one)["doc_id"] for one in lines}) for task, lines in tasks.items()
    }
    results = {
        "configs": {task: {"metric_list": listed} for task in tasks},
        "higher_is_better": {t: {name: h for name, (_, h) in metrics.items()} for t in tasks},
        "versions": dict.fromkeys(tasks, version),
        "n-samples": {t: {"original": n, "effective": n} for t, n in counts.items()},
        "config": {"model": "hf", "model_args": model, "model_revision": "main", "model_sha": ""},
    }
    (folder / f"results_{date}.json").write_text(json.dumps(results), encoding="utf-8")
    return folder


def write_lighteval(
    folder, values, *, prompt="", reference=None, result=None, more=None, results=None, pages=1,
    date=DATE, model=None,
):  # fmt: skip
    """A run on the task `sums` as version 0.13 saves it; returns the folder.

    `more` has other metrics' values by row, `results` what they are reported as.
    """
    name = folder / "details" / "me" / "model" / date
    name.mkdir(parents=True)
    columns = {"acc": values, **(more or {})}
    rows = [
        {
            "doc": {
                "query": f"{n}+1=",
                "choices": [str(n + 1), "0"] if reference is None else [reference, "0"],
                "gold_index": 0,
                "instruction": None,
                "specific": {"page": n // pages},
                "id": str(n),
                "fewshot_samples": [],
            },
            "metric": {metric: of[n] for metric, of in columns.items()},
            "model_response": {"input": f"{prompt}{n}+1=", "text": ["x"]},
        }
        for n in range(len(values))
    ]
    parquet.write_table(pa.Table.from_pylist(rows[::-1]), name / f"details_sums|0_{date}.parquet")
    told = {"acc": sum(values) / len(values) if result is None else result, **(results or {})}
    metrics = [
        {"metric_name": metric, "higher_is_better": metric != "word_perplexity"}
        for metric in columns
    ]
    whole = {
        "results": {"sums|0": told},
        "versions": {"sums|0": 0},
        "config_tasks": {"sums|0": {"metrics": metrics}},
        "config_general": {"model_name": model, "model_config": {"model_name": model}},
    }
    place = folder / "results" / "me" / "model"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"results_{date}.json").write_text(json.dumps(whole))
    return folder


def write_opencompass(folder, values, *, model="model", prompt="", reference=None, result=None):
    """A run on the data set `sums` as 0.5 writes it, of replicas by item; returns the folder."""
    by_item = [value if isinstance(value, list) else [value] for value in values]
    details = [
        {"example_abbr": f"sums_{n}", "pred": ["?"] * len(of), "correct": [bool(v) for v in of]}
        for n, of in enumerate(by_item)
    ]
    mean = sum(map(sum, by_item)) / sum(map(len, by_item))
    name = "accuracy" if len(by_item[0]) == 1 else f"accuracy ({len(by_item[0])} runs average)"
    asked = {
        str(replica * len(values) + n): {
            "origin_prompt": [{"role": "HUMAN", "prompt": f"{prompt}{n}+1="}],
            "prediction": "?",
            "gold": reference or str(n + 1),
        }
        for replica in range(len(by_item[0]))
        for n in range(len(values))
    }
    whole = {name: 100 * mean if result is None else 100 * result, "details": details}
    for part, of in (("results", whole), ("predictions", asked)):
        place = folder / part / model
        place.mkdir(parents=True)
        (place / "sums.json").write_text(json.dumps(of))
    return folder
