"""Files as lm-evaluation-harness writes them, of scores given by hand."""

import hashlib
import json

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


def write(folder, tasks, *, metrics=None, version=1, effective=None):
    """A run's folder: lines of samples by task, and the results file; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    metrics = metrics or {"acc": ("mean", True), "acc_norm": ("mean", True)}
    for task, lines in tasks.items():
        (folder / f"samples_{task}_{DATE}.jsonl").write_text("".join(lines), encoding="utf-8")
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
        "n-samples": {t: {"original": n, "effective": effective or n} for t, n in counts.items()},
    }
    (folder / f"results_{DATE}.json").write_text(json.dumps(results), encoding="utf-8")
    return folder
