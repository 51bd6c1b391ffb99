import json
from pathlib import Path

import pytest

from pipeline.tasks import task_definitions
from pipeline.tasks.prepared_task import prepare_task
from pipeline.tasks.task import Prompt, Row, join_prompt, make_demonstration, make_prompt

GOLDEN = Path(__file__).parent / "standins" / "prompts.json"

QUESTION = Row(
    id="1",
    key="1",
    query="What does a thermometer measure?",
    options=("mass", "temperature", "length"),
    gold=1,
    cluster="1",
)
WASHING = "Washing dishes: A man stands at a sink full of plates. He"
DISHES = Row(
    id="2",
    key="2",
    query=WASHING,
    options=("scrubs a plate.", ", laughing, eats."),
    gold=0,
    cluster="2",
)


ARC, PIQA = task_definitions.ARC_EASY.style, task_definitions.PIQA.style
HELLASWAG = task_definitions.HELLASWAG_STYLE
ASKED = "What does a thermometer measure?"
QUESTIONED = f"Question: {ASKED}"
SHOWN = " A. mass\n B. temperature\n C. length"
CHOOSE = "Choose the best continuation:\n A. scrubs a plate.\n B. , laughing, eats."
TEXTS, LETTERS = (" mass", " temperature", " length"), (" A", " B", " C")


@pytest.mark.parametrize(
    ("row", "style", "formulation", "context", "candidates"),
    [
        # cf scores a text that is not shown, mcf a letter, hyb a text that is shown.
        (QUESTION, ARC, "cf", f"{QUESTIONED}\nAnswer:", TEXTS),
        (QUESTION, ARC, "mcf", f"{QUESTIONED}\n{SHOWN}\nAnswer:", LETTERS),
        (QUESTION, ARC, "hyb", f"{QUESTIONED}\n{SHOWN}\nAnswer:", TEXTS),
        # Other tasks call a question otherwise.
        (QUESTION, PIQA, "cf", f"Goal: {ASKED}\nAnswer:", TEXTS),
        # HellaSwag goes on with the text, and asks only when options are shown.
        (DISHES, HELLASWAG, "cf", WASHING, (" scrubs a plate.", " , laughing, eats.")),
        (DISHES, HELLASWAG, "mcf", f"{WASHING}\n{CHOOSE}\nAnswer:", LETTERS[:2]),
    ],
)
def test_prompts_by_hand(row, style, formulation, context, candidates):
    unconditional = "Answer:" if context.endswith("Answer:") else ""
    expected = Prompt(context, candidates, unconditional)
    assert make_prompt(row, style, formulation) == expected


def test_demonstrations_are_solved_and_two_line_breaks_apart():
    shots = [make_demonstration(QUESTION, ARC, f) for f in ("cf", "mcf", "hyb")]
    assert shots[0] == f"{QUESTIONED}\nAnswer: temperature"
    assert shots[1].endswith("\nAnswer: B")
    assert shots[2].endswith(" C. length\nAnswer: temperature")
    assert join_prompt(["one", "two"], "three") == "one\n\ntwo\n\nthree"
    assert join_prompt([], "three") == "three"


@pytest.mark.parametrize("shots", [0, 7])
@pytest.mark.parametrize("formulation", ["cf", "mcf", "hyb"])
@pytest.mark.parametrize("task", task_definitions.TASKS)
def test_no_prompt_changes_unnoticed(benchmarks, asked, task, formulation, shots):
    found = prepare_task(benchmarks, asked(task, shots, formulation)).sha256()
    assert found == json.loads(GOLDEN.read_text())[f"{task}, {formulation}, {shots}-shot"]
