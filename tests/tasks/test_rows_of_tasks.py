"""Records of each data set and the rows that they become."""

import re

import pytest

from pike_mixing.errors import InputError
from pipeline.tasks import task_definitions
from pipeline.tasks.task_definitions import hellaswag_row, lettered_options_row, piqa_row

SHOES = "[header] How to dry shoes [title] Stuff them with paper. [step] Take old newspaper."


def arc(**values):
    known = {
        "id": "a1",
        "question": " What freezes? ",
        "choices": {"text": ["sand", "water", "wood"], "label": ["1", "2", "3"]},
        "answerKey": "2",
    }
    return {**known, **values}


def caption(**values):
    known = {
        "ind": 4,
        "activity_label": "Chess",
        "ctx_a": "A girl looks at the board.",
        "ctx_b": "she says Check and",
        "endings": ["melts.", ", smiling, moves.", "'s queen wins.", "sleeps."],
        "source_id": "activitynet~v_x",
        "label": "2",
    }
    return {**known, **values}


def test_a_digit_is_a_label_and_no_position():
    row = lettered_options_row(arc(), "validation:0")
    assert (row.id, row.query, row.options) == ("a1", "What freezes?", ("sand", "water", "wood"))
    assert row.gold == 1
    letters = {"text": ["a", "b", "c", "d", "e"], "label": ["A", "B", "C", "D", "E"]}
    assert lettered_options_row(arc(choices=letters, answerKey="E"), "").gold == 4
    # Labels in another order than the alphabet's.
    turned = {"text": ["a", "b"], "label": ["B", "A"]}
    assert lettered_options_row(arc(choices=turned, answerKey="A"), "").gold == 1


def test_questions_about_one_concept_are_one_cluster():
    row = task_definitions.CSQA.row(arc(question_concept="ice"), "validation:0")
    assert (row.cluster, row.key) == ("ice", "a1")


def test_ways_to_one_goal_are_one_cluster():
    rows = [
        piqa_row({"goal": "Dry it", "sol1": a, "sol2": b, "label": gold}, f"validation:{n}")
        for n, (a, b, gold) in enumerate([("sun", "sea", 0), ("cow", "wind", 1)])
    ]
    assert [row.id for row in rows] == ["validation:0", "validation:1"]
    assert rows[0].cluster == rows[1].cluster
    assert [row.gold for row in rows] == [0, 1]


def test_hellaswag_is_put_together_as_the_harnesses_do():
    row = hellaswag_row(caption(), "validation:7")
    # The capital letter of "Check" is lost: `capitalize` makes the rest lower case.
    assert row.query == "Chess: A girl looks at the board. She says check and"
    assert row.options == ("melts.", ", smiling, moves.", "'s queen wins.", "sleeps.")
    assert (row.id, row.key, row.gold) == ("validation:7", "activitynet~v_x|4", 2)
    assert (row.cluster, row.origin) == ("activitynet~v_x", "activitynet")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SHOES, "How to dry shoes. Stuff them with paper. Take old newspaper."),
        # One full stop, where plain replacement gives two.
        ("Dry shoes. [title] Use paper.", "Dry shoes. Use paper."),
        ("Dry shoes [title] Use paper.", "Dry shoes. Use paper."),
        ("[substeps] Push it in.", "Push it in."),
        ("Push it in. [step]", "Push it in."),
        ('Say {{ name }} and "no"', 'Say {{ name }} and "no"'),
    ],
)
def test_marks_of_layout_go_the_way_of_olmes(text, expected):
    assert task_definitions.clean_hellaswag(text) == expected


@pytest.mark.parametrize("label", ["2", " 2", 2])
def test_a_label_may_be_a_text_or_a_number(label):
    assert hellaswag_row(caption(label=label), "").gold == 2


def test_a_pair_of_translations_gives_the_language_asked_for():
    endings = [{"hi": text, "en": "x"} for text in ("क", "ख", "ग", "घ")]
    row = task_definitions.translated_hellaswag_task("hi").row(caption(endings=endings), "val:0")
    assert row.options == ("क", "ख", "ग", "घ")
    with pytest.raises(InputError, match=r"val:0: 'endings\[0\]' is None"):
        task_definitions.translated_hellaswag_task("de").row(caption(endings=endings), "val:0")


TWICE = {"text": ["a", "b"], "label": ["A", "A"]}
BLANK = {"text": ["a", " "], "label": ["A", "B"]}


PIQA = {"goal": "g", "sol1": "a", "sol2": "b"}


@pytest.mark.parametrize(
    ("row", "record", "message"),
    [
        (lettered_options_row, {"question": "?"}, "v:3: no field 'choices' (fields: 'question')"),
        (lettered_options_row, arc(answerKey="B"), "v:3: answer 'B' is none of the labels 1, 2, 3"),
        (lettered_options_row, arc(answerKey=""), "v:3: 'answerKey' is hidden: this split has no"),
        (lettered_options_row, arc(choices=["a", "b"]), "v:3: 'choices' is ['a', 'b'], not labels"),
        (lettered_options_row, arc(question="  "), "v:3: 'question' is blank"),
        (lettered_options_row, arc(choices=TWICE), "v:3: labels A, A do not name 2 options"),
        (lettered_options_row, arc(choices=BLANK), "v:3: 'text[1]' is blank"),
        (hellaswag_row, caption(label="4"), "v:3: 'label' is '4', but there are options 0 to 3"),
        (hellaswag_row, caption(label=True), "v:3: 'label' is True, but"),
        (hellaswag_row, caption(label=""), "v:3: 'label' is hidden"),
        (hellaswag_row, caption(endings=["a"]), "v:3: 'endings' is ['a'], not a list of options"),
        (hellaswag_row, caption(endings=["a", "b"]), "v:3: 'endings' are 2"),
        (hellaswag_row, caption(endings=["a", "[x]", "c", "d"]), "v:3: 'endings' are 4, or blank"),
        (hellaswag_row, caption(ind="4"), "v:3: 'ind' is '4', not a whole number"),
        (hellaswag_row, caption(ctx_a=3), "v:3: 'ctx_a' is 3, not a text"),
        (piqa_row, {**PIQA, "label": 2}, "options 0 to 1"),
        (piqa_row, {**PIQA, "label": -1}, "'label' is hidden"),
    ],
)
def test_a_wrong_record_is_named(row, record, message):
    with pytest.raises(InputError, match=re.escape(message)):
        row(record, "v:3")


def test_every_task_is_pinned_and_can_be_asked():
    translated = ["hellaswag_en", "hellaswag_hi", "hellaswag_de"]
    assert list(task_definitions.TASKS) == ["arc_easy", "csqa", "hellaswag", "piqa", *translated]
    for name, task in task_definitions.TASKS.items():
        assert task.name == name
        assert re.fullmatch("[0-9a-f]{40}", task.revision)
        assert {task.split, *task.further_splits} <= set(task.files)
        assert len(task.curated) == len(set(task.curated)) == (0 if name in translated else 7)


def test_further_languages_need_no_code():
    task = task_definitions.find_task("hellaswag_sv")
    assert task.language == "sv"
    assert task.files["val"].path == "data/sv/val.jsonl"
    assert "NON-COMMERCIAL" in task.notice


def test_an_unknown_task_is_named_with_the_nearest():
    with pytest.raises(InputError, match="'arc-easy' is unknown: did you mean 'arc_easy'"):
        task_definitions.find_task("arc-easy")
