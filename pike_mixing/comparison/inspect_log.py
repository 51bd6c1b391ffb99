"""Samples of an inspect_ai log in JSON (`inspect eval --log-format json`, `inspect log convert`).

An item is a sample: its id with its input and target. Several epochs of a sample are one score,
their mean. Letters count as inspect_ai's own mean does: C 1, P 0.5, I and N 0.
"""

import json
import math
from pathlib import Path
from typing import Any

from pike_mixing.comparison.scores import Run, Scores
from pike_mixing.errors import InputError

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def is_log(path: Path) -> bool:
    """Whether a path is a log, or a folder with some."""
    return path.suffix in (".eval", ".json") or (path.is_dir() and bool(logs(path)))


def logs(path: Path) -> list[Path]:
    """The logs that a path stands for."""
    if not path.is_dir():
        return [path]
    found = [p for p in sorted(path.iterdir()) if p.suffix in (".eval", ".json")]
    return [p for p in found if not p.name.startswith("results_") and p.name != "manifest.json"]


def read(path: Path, run: Run, scores: Scores, metrics: list[str], cluster: str | None) -> None:
    """Adds a log's samples to the scores.

    Args:
        path: The log.
        run: Of which run it is.
        scores: Where to.
        metrics: Names of the scorers that are wanted; all when empty.
        cluster: The field of a sample's metadata that says which others were made of one text.

    Raises:
        InputError: the log cannot be read, was not finished, or a score is no number.
    """
    if path.suffix == ".eval":
        raise InputError(f"{path}: write it as JSON first: inspect log convert --to json {path}")
    try:
        log = json.loads(path.read_text(encoding="utf-8"))
        about, samples, status = log["eval"], log["samples"], log["status"]
        task = about["task"]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}: check the path") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path} is no log of inspect_ai in JSON: give another file") from None
    if status != "success" or not samples:
        raise InputError(f"{path}: its status is {status!r}: evaluate again")
    scores.state(task, "version", about.get("task_version"), run.name)
    by_item: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    clusters: dict[tuple[Any, ...], str] = {}
    for sample in samples:
        text = json.dumps([sample.get("input"), sample.get("target")], sort_keys=True)
        item = (sample["id"], text, "")
        clusters[item] = text if cluster is None else _cluster(path, sample, cluster)
        for name, score in (sample.get("scores") or {}).items():
            if not metrics or name in metrics:
                number = _number(path, sample["id"], name, score.get("value"))
                by_item.setdefault(item, {}).setdefault(name, []).append(number)
    for item, found in by_item.items():
        for name, numbers in found.items():
            column = scores.column(task, name, True)
            places, values = column.rows(run)
            places.append(column.place(item, 1.0, clusters[item], path))
            values.append(math.fsum(numbers) / len(numbers))


def _cluster(path: Path, sample: dict[str, Any], field: str) -> str:
    metadata = sample.get("metadata") or {}
    if field not in metadata:
        raise InputError(
            f"{path}: --cluster: the metadata of sample {sample['id']} have no {field!r}: they "
            f"have {', '.join(metadata) or 'none'}"
        )
    return json.dumps(metadata[field], sort_keys=True)


def _number(path: Path, sample: object, name: str, value: object) -> float:
    if isinstance(value, (int, float)) and math.isfinite(value):
        return float(value)
    if isinstance(value, str) and value in LETTERS:
        return LETTERS[value]
    raise InputError(
        f"{path}: sample {sample}: {name} is {value!r}, no number: compare another scorer: --metric"
    )
