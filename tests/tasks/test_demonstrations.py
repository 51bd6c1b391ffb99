import hashlib

import pytest

from pike_mixing.errors import InputError
from pipeline.tasks import benchmark, task_definitions
from pipeline.tasks.benchmark import load_benchmark
from pipeline.tasks.task import Row

GERMAN = task_definitions.translated_hellaswag_task("de")


def row(key, cluster="c", query="q"):
    return Row(id=key, key=key, query=query, options=("a", "b"), gold=0, cluster=cluster)


@pytest.mark.parametrize("task", task_definitions.TASKS)
def test_demonstrations_are_disjoint_from_the_items(benchmarks, asked, task):
    found = load_benchmark(benchmarks, asked(task, 7))
    assert len(found.shots) == 7
    for name in ("key", "query"):
        assert not {getattr(r, name) for r in found.shots} & {getattr(r, name) for r in found.rows}
    assert not {r.cluster for r in found.shots} & {r.cluster for r in found.rows}


def test_the_order_without_a_list_is_that_of_a_hash():
    behind = [row(f"s{n}|{n}", cluster=f"s{n}") for n in range(20)]
    expected = sorted(
        behind, key=lambda r: hashlib.sha256(f"pike-demos-v1|de|3|{r.key}".encode()).hexdigest()
    )
    assert benchmark.order_candidates_by_hash(GERMAN, [], behind, 3) == expected
    assert benchmark.order_candidates_by_hash(GERMAN, [], behind[::-1], 3) == expected
    assert benchmark.order_candidates_by_hash(GERMAN, [], behind, 4) != expected
    hindi = task_definitions.translated_hellaswag_task("hi")
    assert benchmark.order_candidates_by_hash(hindi, [], behind, 3) != expected


def test_rows_of_an_evaluated_video_are_no_demonstrations():
    asked = [row("a|1", cluster="a")]
    behind = [row("a|2", cluster="a"), row("b|1", cluster="b")]
    assert benchmark.order_candidates_by_hash(GERMAN, asked, behind, 0) == [behind[1]]


def test_of_rows_with_one_key_the_first_counts():
    keyed = [(key, f"{key} {n}") for n in range(2) for key in task_definitions.ARC_EASY.curated]
    values = [value for _, value in keyed]
    assert benchmark.curated_demonstrations(task_definitions.ARC_EASY, keyed) == values[:7]
    assert benchmark.curated_demonstrations(task_definitions.ARC_EASY, keyed[::-1]) == values[7:]
    with pytest.raises(InputError, match=r"1 of 7 demonstrations.*'MCAS_2007_8_5189'"):
        benchmark.curated_demonstrations(task_definitions.ARC_EASY, keyed[1:7])


SEVEN = [row(str(n)) for n in range(7)]


@pytest.mark.parametrize(
    ("task", "asked", "candidates", "shots", "message"),
    [
        (task_definitions.HELLASWAG, [], SEVEN, 8, r"8 shots.*7 demonstrations: lower shots$"),
        (GERMAN, [], [], 1, r"1 shots.*0 demonstrations: lower shots, or items"),
        (
            task_definitions.HELLASWAG,
            [row("i")],
            [row("k")],
            1,
            "'k' is also an evaluated question",
        ),
    ],
)
def test_demonstrations_that_cannot_be_had_are_named(task, asked, candidates, shots, message):
    with pytest.raises(InputError, match=message):
        benchmark.take_demonstrations(task, asked, candidates, shots)
