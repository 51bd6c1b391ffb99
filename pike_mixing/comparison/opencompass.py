"""Results that OpenCompass wrote with the details of its evaluators, as 0.5 does by default.

A folder of one evaluation has `results/MODEL/DATASET.json`, whose `details` list what the evaluator
said of each item, and `predictions/MODEL/DATASET.json` with the items' prompts and references. An
item is its name in the details (data set and number there) with its reference (a hash) and its
prompt (another); replicas of an item are one score, their mean. Each evaluator names its own
fields. Read are those from which OpenCompass itself counts right answers over replicas, and only
where their mean is a number that the file reports.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pike_mixing import foreign_json
from pike_mixing.comparison.scores import Log, Scores, hash_item, metric_without_filter
from pike_mixing.errors import InputError

RIGHT = ("correct", "is_correct", "cascade_correct")
"""Fields of an item that say whether an answer is right; the first that is there."""
TABLE = "make a table of its scores, with the columns model, item and score"


def find_results_files(path: Path) -> list[Path]:
    """The files of results that a path stands for: of a model's folder or of an evaluation's."""
    if path.is_file():
        return [path] if path.suffix == ".json" and path.parent.parent.name == "results" else []
    pattern = "*.json" if path.parent.name == "results" else "results/*/*.json"
    # lighteval has files of this name at such places.
    return sorted(p for p in path.glob(pattern) if not p.name.startswith("results_"))


def add_logs(
    given_path: Path, side: str, scores: Scores, metrics: Sequence[str], *,
    cluster: str | None, same_document: bool,
) -> None:  # fmt: skip
    """Adds the scores of logs.

    Args:
        given_path: A file of results, or a folder with some.
        side: Which side they are of.
        scores: Where to.
        metrics: Names that are wanted; all when empty.
        cluster: Must be absent: the files have no fields of documents.
        same_document: Leaves the prompt out of what identifies an item.

    Raises:
        InputError: a file is damaged, or has no scores by item that can be read.
    """
    if cluster is not None:
        raise InputError(
            f"--cluster: results of OpenCompass have no fields of documents: {TABLE}, and document"
        )
    for path in find_results_files(given_path):
        if scores.note_if_unwanted(path.stem):
            continue
        log = Log(path, given_path, path.parent, path.stem, path.parents[2].name, path.parent.name)
        run = scores.add_log(side, log)
        metric, found = _read_metric_and_scores(path)
        if metrics and metric not in map(metric_without_filter, metrics):
            scores.note_unwanted_metrics(path.stem, [metric], metrics)
            continue
        column = scores.column(path.stem, metric, True)
        places, values = column.indices_and_scores(run)
        for (name, reference, prompt), value in found:
            item = (name, reference) if same_document else (name, reference, prompt)
            places.append(column.index_of_item(item, 1.0, f"{path.stem}/{name}", path))
            values.append(value)


def _read_metric_and_scores(path: Path) -> tuple[str, list[tuple[tuple[str, str, str], float]]]:
    """The metric's name, and the items with their scores."""
    whole = foreign_json.read_object(path, "evaluate again")
    details = whole.get("details")
    if isinstance(details, dict):
        details = [{"example_abbr": n, **one} for n, one in details.items() if n != "type"]
    if not isinstance(details, list) or not all(isinstance(one, dict) for one in details):
        details = []
    if not details:
        raise InputError(
            f"{path} has no scores by item: evaluate with --dump-eval-details, or {TABLE}"
        )
    values = [_replica_points(path, one) for one in details]
    mean = 100 * math.fsum(math.fsum(of) / len(of) for of in values) / len(values)
    said = {n: v for n, v in whole.items() if isinstance(v, (int, float)) and n != "details"}
    metric = next((n for n, v in said.items() if abs(v - mean) < 1e-6 * max(1.0, mean)), None)
    if metric is None:
        reported = ", ".join(f"{n} {v:g}" for n, v in said.items()) or "nothing"
        raise InputError(
            f"{path}: right answers are {mean:.6g} %, and the file reports {reported}: its score "
            f"is no mean over items: {TABLE}"
        )
    asked = _read_predictions(path)
    if len(asked) != sum(map(len, values)):
        raise InputError(
            f"{path} has {sum(map(len, values))} answers, its predictions {len(asked)}: evaluate "
            "again"
        )
    items = [_item_key(one, ask) for one, ask in zip(details, asked, strict=False)]
    averages = (math.fsum(of) / len(of) for of in values)
    return metric_without_filter(metric), list(zip(items, averages, strict=True))


def _replica_points(path: Path, details: dict[str, Any]) -> list[float]:
    """Points of an item's replicas."""
    given = next((details[name] for name in RIGHT if details.get(name) is not None), None)
    values: list[Any] = given if isinstance(given, list) else [given]
    if not values or not all(v in (0, 1) for v in values):
        raise InputError(
            f"{path}: {details.get('example_abbr')}: its evaluator does not say whether the answer "
            f"is right ({', '.join(RIGHT)}): {TABLE}"
        )
    return [float(v) for v in values]


def _read_predictions(path: Path) -> list[dict[str, Any]]:
    """What the model was asked, in the order of the details: one file, or numbered parts."""
    folder = path.parents[2] / "predictions" / path.parent.name
    files, whole = [folder / path.name], folder / path.name
    if not whole.exists():
        files = []
        while (part := folder / f"{path.stem}_{len(files)}{path.suffix}").exists():
            files.append(part)
    if not files:
        raise InputError(
            f"{path}: its predictions are not at {whole}: keep both folders, results and "
            "predictions, that OpenCompass wrote"
        )
    result: list[dict[str, Any]] = []
    for file in files:
        of = foreign_json.read_object(file, "evaluate again")
        try:
            result += [of[str(n)] for n in range(len(of))]
        except KeyError as error:
            raise InputError(f"{file} has no item {error}: evaluate again") from None
    return result


def _item_key(details: dict[str, Any], prediction: dict[str, Any]) -> tuple[str, str, str]:
    """What identifies an item: its name, its reference and its prompt."""
    labels = {n: v.get("prompt") for n, v in prediction.items() if isinstance(v, dict)}
    prompt = [prediction.get("origin_prompt"), prediction.get("prompt"), labels]
    return str(details.get("example_abbr")), hash_item(prediction.get("gold")), hash_item(prompt)
