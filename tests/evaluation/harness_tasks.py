"""Our downstream tasks as tasks of lm-evaluation-harness, written anew in its own terms.

Templates read the records as they were fetched and know nothing of `pipeline.tasks.task`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datasets
from lm_eval.tasks.hellaswag.utils import preprocess

from pipeline.runtime import atomic_files
from pipeline.tasks import prepared_task as fetched
from pipeline.tasks.prepared_task import PreparedTask

NATIVE = {"sum": "acc", "per_character": "acc_norm", "per_byte": "acc_bytes"}
"""Our normalisations that the harness has itself, under its names."""

LETTERS = "ABCDEFGHIJ"
SHOWN = "{% for text in TEXTS %} {{ 'ABCDEFGHIJ'[loop.index0] }}. {{ text|trim }}\n{% endfor %}"
LABELLED = {
    "query": "Question: {{ question|trim }}\n",
    "texts": "choices.text",
    "gold": "{{ choices.label.index(answerKey) }}",
}
TEMPLATES: dict[str, dict[str, str]] = {
    "arc_easy": LABELLED,
    "csqa": LABELLED,
    "piqa": {"query": "Goal: {{ goal|trim }}\n", "texts": "[sol1, sol2]", "gold": "{{ label }}"},
    "hellaswag": {"query": "{{ text }}\n", "texts": "endings", "gold": "{{ label|int }}"},
}


def definitions(one: PreparedTask, tasks: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A benchmark as a task of the harness, and its candidates alone; from a folder of tasks."""
    asked, task = one.spec, one.task
    plain = asked.formulation == "cf"
    hellaswag = task.name.startswith("hellaswag")
    told = TEMPLATES["hellaswag" if hellaswag else task.name]
    answer = "" if hellaswag and plain else "Answer:"
    shown = "Choose the best continuation:\n" * hellaswag + SHOWN.replace("TEXTS", told["texts"])
    text = told["query"] + ("" if plain else shown) + answer
    letters = f"{{{{ '{LETTERS}'[:{told['texts']}|length]|list }}}}"
    texts = f"{{{{ {told['texts']}|map('trim')|list }}}}"
    metrics = [*NATIVE.values(), *(["acc_mutual_info"] if hellaswag and plain else [])]
    rows, demonstrations = _records(one, tasks / one.task.name)
    splits = {
        "asked": datasets.Dataset.from_list(rows),
        # A data set without rows has no columns, which the harness looks at even for 0 shots.
        "demonstrations": datasets.Dataset.from_list(demonstrations or rows[:1]),
    }
    config = {
        "task": asked.label,
        "custom_dataset": lambda **_: splits,
        "validation_split": "asked",
        "fewshot_config": {"sampler": "first_n", "split": "demonstrations"},
        "num_fewshot": asked.shots,
        "output_type": "multiple_choice",
        "doc_to_text": text.removesuffix("\n"),
        "doc_to_choice": letters if asked.formulation == "mcf" else texts,
        "doc_to_target": told["gold"],
        "target_delimiter": " ",
        "fewshot_delimiter": "\n\n",
        "metric_list": [
            {"metric": name, "aggregation": "mean", "higher_is_better": True} for name in metrics
        ],
    }
    alone = {"task": f"{asked.label}, alone", "doc_to_text": answer, "num_fewshot": 0}
    return config, {**config, **alone, "metric_list": config["metric_list"][:1]}


def _records(one: PreparedTask, folder: Path) -> tuple[list[Any], list[Any]]:
    """What was fetched, as it is stored: rows that are asked, and demonstrations."""
    manifest = atomic_files.read_json(folder / atomic_files.MANIFEST)
    found = fetched.read_task_records(folder, one.task.split, manifest)
    if one.task.curated:
        solved = fetched.read_task_records(folder, fetched.DEMONSTRATIONS, manifest)[
            : one.spec.shots
        ]
    else:
        solved = [found[int(row.id.rpartition(":")[2])] for row in one.demonstrations]
    parts = found[: len(one.rows)], solved
    if one.task.name.startswith("hellaswag"):
        parts = tuple([_cleaned(record, one.task.language) for record in part] for part in parts)
    return parts


def _cleaned(record: Mapping[str, Any], language: str) -> dict[str, Any]:
    """HellaSwag as OLMES has it, by the harness's function.

    That function puts a full stop in place of a title's mark, OLMES only where none is. Some
    translations keep an ending beside the English one: {"zh": ..., "en": ...}.
    """

    def clean(text: str) -> str:
        return preprocess(re.sub(r"\. \[title\]", " [title]", text)).strip()

    said = f"{record['ctx_a'].strip()} {record['ctx_b'].strip().capitalize()}"
    own = [e[language] if isinstance(e, dict) else e for e in record["endings"]]
    return {
        "text": clean(f"{record['activity_label'].strip()}: {said}"),
        "endings": [clean(ending) for ending in own],
        "label": record["label"],
    }
