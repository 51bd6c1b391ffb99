"""Results that OpenCompass wrote with the details of its evaluators, as 0.5 does by default.

A folder of one evaluation has `results/MODEL/DATASET.json`, whose `details` list what the evaluator
said of each item, and `predictions/MODEL/DATASET.json` with the items' prompts and references. An
item is its name in the details (data set and number there) with its reference (a hash) and its
prompt (another); replicas of an item are one score, their mean. Each evaluator names its own
fields. Read are those from which OpenCompass itself counts right answers over replicas, and only
where their mean is a number that the file reports.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing import foreign_json
from pike_mixing.comparison.scores import Log, Scores, bare_metric_name, hash_item
from pike_mixing.errors import InputError

RIGHT = ("correct", "is_correct", "cascade_correct")
"""Fields of an item that say whether an answer is right; the first that is there."""
TABLE = "make a table of its scores, with the columns model, item and score"


def find_logs(path: Path) -> list[Path]:
    """The files of results that a path stands for: of a model's folder or of an evaluation's."""
    if path.is_file():
        return [path] if path.suffix == ".json" and path.parent.parent.name == "results" else []
    pattern = "*.json" if path.parent.name == "results" else "results/*/*.json"
    # lighteval has files of this name at such places.
    return sorted(p for p in path.glob(pattern) if not p.name.startswith("results_"))


def add_log(path: Path, given_path: Path, side: str, scores: Scores) -> None:
    """Adds the scores of a file of results, found in a path of the command line.

    Raises:
        InputError: the file is damaged, has no scores by item that can be read, or was read
            before; or items are to be clustered, of which it has no fields.
    """
    task, reading = path.stem, scores.reading
    if reading.cluster is not None:
        raise InputError(
            f"--cluster: results of OpenCompass have no fields of documents: {TABLE}, and document"
        )
    if not scores.needs_task_else_notes_it(task):
        return
    log = Log(path, given_path, path.parent, task, path.parents[2].name, path.parent.name, side)
    run = scores.add_log(log)
    metric, items = _read_metric_and_items(path)
    if scores.needs_metric_else_notes_it(task, metric):
        column = scores.find_or_add_column(task, metric, True)
        for name, reference, prompt, score in items:
            item = (name, reference) if reading.same_document else (name, reference, prompt)
            column.append_score_row(run, item, score, cluster=f"{task}/{name}", message_prefix=path)


class _Item(NamedTuple):
    """What identifies an item, and its score."""

    name: str
    reference: str
    prompt: str
    score: float


def _read_metric_and_items(path: Path) -> tuple[str, list[_Item]]:
    """The metric's name, and the items."""
    whole = foreign_json.read_json_nonobject_as_empty(path, "evaluate again")
    details = whole.get("details")
    if isinstance(details, dict):
        details = [{"example_abbr": n, **one} for n, one in details.items() if n != "type"]
    if not isinstance(details, list) or not all(isinstance(one, dict) for one in details):
        details = []
    if not details:
        raise InputError(
            f"{path} has no scores by item: evaluate with --dump-eval-details, or {TABLE}"
        )
    answers = [_answer_correctness(path, one) for one in details]
    averages = [math.fsum(of) / len(of) for of in answers]
    mean = 100 * math.fsum(averages) / len(averages)
    said = {n: v for n, v in whole.items() if isinstance(v, (int, float)) and n != "details"}
    metric = next((n for n, v in said.items() if abs(v - mean) < 1e-6 * max(1.0, mean)), None)
    if metric is None:
        reported = ", ".join(f"{n} {v:g}" for n, v in said.items()) or "nothing"
        raise InputError(
            f"{path}: right answers are {mean:.6g} %, and the file reports {reported}: its score "
            f"is no mean over items: {TABLE}"
        )
    predictions, count = _read_predictions(path), sum(map(len, answers))
    if len(predictions) != count:
        raise InputError(
            f"{path} has {count} answers, its predictions {len(predictions)}: evaluate again"
        )
    items = []
    for one, asked, average in zip(details, predictions, averages, strict=False):
        labels = {n: v.get("prompt") for n, v in asked.items() if isinstance(v, dict)}
        prompt = [asked.get("origin_prompt"), asked.get("prompt"), labels]
        reference = hash_item(asked.get("gold"))
        items.append(_Item(str(one.get("example_abbr")), reference, hash_item(prompt), average))
    return bare_metric_name(metric), items


def _answer_correctness(path: Path, item: dict[str, Any]) -> list[bool]:
    """Whether each answer to an item is right."""
    given = next((item[name] for name in RIGHT if item.get(name) is not None), None)
    values: list[Any] = given if isinstance(given, list) else [given]
    if not values or not all(v in (0, 1) for v in values):
        raise InputError(
            f"{path}: {item.get('example_abbr')}: its evaluator does not say whether the answer "
            f"is right ({', '.join(RIGHT)}): {TABLE}"
        )
    return [v == 1 for v in values]


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
        of = foreign_json.read_json_nonobject_as_empty(file, "evaluate again")
        try:
            result += [of[str(n)] for n in range(len(of))]
        except KeyError as error:
            raise InputError(f"{file} has no item {error}: evaluate again") from None
    return result
