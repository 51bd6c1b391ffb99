import json
from pathlib import Path

import pytest

from pipeline.tasks import arc_easy, formats, hellaswag, piqa, registry
from pipeline.tasks.benchmark import load
from pipeline.tasks.task import Row

GOLDEN = Path(__file__).parent / "standins" / "prompts.json"

QUESTION = Row(
    id="1",
    key="1",
    query="What does a thermometer measure?",
    options=("mass", "temperature", "length"),
    gold=1,
    cluster="1",
)
DISHES = Row(
    id="2",
    key="2",
    query="Washing dishes: A man stands at a sink full of plates. He",
    options=("scrubs a plate.", ", laughing, eats."),
    gold=0,
    cluster="2",
)


def told(row, style, formulation):
    prompt = formats.prompt(row, style, formulation)
    return prompt.context, list(prompt.candidates), prompt.unconditional


def test_cf_scores_a_text_that_is_not_shown():
    assert told(QUESTION, arc_easy.TASK.style, "cf") == (
        "Question: What does a thermometer measure?\nAnswer:",
        [" mass", " temperature", " length"],
        "Answer:",
    )
    assert told(QUESTION, piqa.TASK.style, "cf")[0].startswith("Goal: What")


def test_mcf_scores_a_letter():
    assert told(QUESTION, arc_easy.TASK.style, "mcf") == (
        "Question: What does a thermometer measure?\n"
        " A. mass\n B. temperature\n C. length\nAnswer:",
        [" A", " B", " C"],
        "Answer:",
    )


def test_hyb_scores_a_text_that_is_shown():
    style = arc_easy.TASK.style
    assert told(QUESTION, style, "hyb") == (
        formats.prompt(QUESTION, style, "mcf").context,
        [" mass", " temperature", " length"],
        "Answer:",
    )


def test_hellaswag_goes_on_with_the_text_and_asks_only_when_options_are_shown():
    assert told(DISHES, hellaswag.STYLE, "cf") == (
        "Washing dishes: A man stands at a sink full of plates. He",
        [" scrubs a plate.", " , laughing, eats."],
        "",
    )
    assert told(DISHES, hellaswag.STYLE, "mcf") == (
        "Washing dishes: A man stands at a sink full of plates. He\n"
        "Choose the best continuation:\n A. scrubs a plate.\n B. , laughing, eats.\nAnswer:",
        [" A", " B"],
        "Answer:",
    )


def test_demonstrations_are_solved_and_two_line_breaks_apart():
    style = arc_easy.TASK.style
    shots = [formats.demonstration(QUESTION, style, f) for f in ("cf", "mcf", "hyb")]
    assert shots[0] == "Question: What does a thermometer measure?\nAnswer: temperature"
    assert shots[1].endswith("\nAnswer: B")
    assert shots[2].endswith(" C. length\nAnswer: temperature")
    assert formats.joined(["one", "two"], "three") == "one\n\ntwo\n\nthree"
    assert formats.joined([], "three") == "three"


@pytest.mark.parametrize("shots", [0, 7])
@pytest.mark.parametrize("formulation", ["cf", "mcf", "hyb"])
@pytest.mark.parametrize("task", registry.TASKS)
def test_no_prompt_changes_unnoticed(benchmarks, asked, task, formulation, shots):
    found = load(benchmarks, asked(task, shots, formulation)).sha256()
    assert found == json.loads(GOLDEN.read_text())[f"{task}, {formulation}, {shots}-shot"]
