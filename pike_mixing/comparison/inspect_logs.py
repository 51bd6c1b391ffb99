"""Samples of inspect_ai's logs in JSON (`inspect eval --log-format json`, `inspect log convert`).

An item is a sample: its id with its input and target. Several epochs of a sample are one score,
their mean. Letters count as inspect_ai's own mean does: C 1, P 0.5, I and N 0.
"""

import json
import math
from pathlib import Path
from typing import Any

from pike_mixing import foreign_json
from pike_mixing.comparison.scores import Log, Scores, cluster_key, model_weights_text
from pike_mixing.errors import InputError

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def find_logs(path: Path) -> list[Path]:
    """The logs that a path stands for."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    logs = [file for file in files if file.suffix in (".eval", ".json")]
    return [f for f in logs if not f.name.startswith("results_") and f.name != "manifest.json"]


def add_log(path: Path, given_path: Path, side: str, scores: Scores) -> None:
    """Adds a log's samples, found in a path of the command line.

    By default samples of one input and target are made from one text; `--cluster` names a field of
    their metadata.

    Raises:
        InputError: the log cannot be read, was not finished or read before, or a score is no
            number.
    """
    about, samples = _read_json_evaluation_and_samples(path)
    task = about["task"]
    if not scores.needs_task_else_notes_it(task):
        return
    known = about["model_args"] if isinstance(about.get("model_args"), dict) else {}
    named = {**known, "model": about.get("model"), "base_url": about.get("model_base_url")}
    model = model_weights_text(named) or None
    run = scores.add_log(Log(path, given_path, path.parent, task, path.name, model, side))
    scores.note_fact(task, "version", about.get("task_version"), run.name)
    by_item: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    clusters: dict[tuple[Any, ...], str] = {}
    for n, sample in enumerate(samples, 1):
        if not _is_sample(sample):
            raise InputError(f"{path}: sample {n} is none of inspect_ai: write the log again")
        text = json.dumps([sample.get("input"), sample.get("target")], sort_keys=True)
        item, place = (sample["id"], text, ""), f"{path}: sample {sample['id']}"
        clusters[item] = text
        if scores.reading.cluster is not None:
            clusters[item] = cluster_key(place, sample.get("metadata"), scores.reading.cluster)
        for scorer, score in (sample.get("scores") or {}).items():
            if scores.needs_metric_else_notes_it(task, scorer):
                number = _parse_score(f"{place}: {scorer}", score.get("value"))
                by_item.setdefault(item, {}).setdefault(scorer, []).append(number)
    for item, found in by_item.items():
        for scorer, numbers in found.items():
            mean = math.fsum(numbers) / len(numbers)
            column = scores.find_or_add_column(task, scorer, True)
            column.append_score_row(run, item, mean, cluster=clusters[item], message_prefix=path)


def _read_json_evaluation_and_samples(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """What a log says of its evaluation, and its samples."""
    if path.suffix == ".eval":
        raise InputError(f"{path}: write it as JSON first: inspect log convert --to json {path}")
    foreign_json.refuse_pipes_and_folders(path, "write the log again")
    try:
        log = foreign_json.parse_json_or_value_error(path.read_text(encoding="utf-8"))
        about, samples, status = log["eval"], log["samples"], log["status"]
        about["task"]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}: check the path") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is no log of inspect_ai in JSON: give another file, or make a table of it "
            "with the columns model, item and score"
        ) from None
    if status == "success" and not isinstance(samples, list):
        raise InputError(f"{path} has no list of samples: write the log again")
    if status != "success" or not samples:
        raise InputError(f"{path}: its status is {status!r}: evaluate again")
    return about, samples


def _is_sample(sample: object) -> bool:
    """Whether a sample has an id, and scores with values."""
    if not isinstance(sample, dict) or "id" not in sample:
        return False
    scores = sample.get("scores") or {}
    return isinstance(scores, dict) and all(isinstance(one, dict) for one in scores.values())


def _parse_score(place: str, value: object) -> float:
    if isinstance(value, (int, float)) and math.isfinite(value):
        return float(value)
    if isinstance(value, str) and value in LETTERS:
        return LETTERS[value]
    raise InputError(f"{place} is {value!r}, no number: compare another scorer: --metric")
