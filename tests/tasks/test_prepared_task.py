import hashlib
import json
import shutil

import pytest

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files
from pipeline.runtime.validate_settings import validate
from pipeline.tasks import prepared_task, task_definitions
from pipeline.tasks.prepared_task import TaskSpec, prepare_task
from pipeline.tasks.task import Row

GERMAN = task_definitions.translated_hellaswag_task("de")


@pytest.fixture
def own(benchmarks, tmp_path):
    """A copy of the fetched stand-ins, to be damaged."""
    return shutil.copytree(benchmarks, tmp_path / "benchmarks")


def rewrite(folder, name, change):
    """Changes the records of a fetched file and lists its new checksum."""
    path = folder / f"{name}.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    change(records)
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    manifest = atomic_files.read_json(folder / "manifest.json")
    manifest["files"][path.name]["sha256"] = atomic_files.sha256(path)
    atomic_files.write_json(folder / "manifest.json", manifest)


def test_settings_are_checked_all_at_once():
    with pytest.raises(InputError) as caught:
        validate(TaskSpec, {"task": "piqa", "shots": -1, "formulation": "abc"}, "tasks[0]")
    assert "tasks[0].formulation: 'abc' is not one of 'cf', 'mcf', 'hyb'" in str(caught.value)
    values = {"task": "piqa", "shots": -1, "formulation": "cf", "items": 0}
    with pytest.raises(InputError, match=r"(?s)shots: must not be negative.*items: must be at"):
        validate(TaskSpec, values, "tasks[0]")


def test_rows_are_the_first_of_the_split(benchmarks, asked):
    found = prepare_task(benchmarks, asked("hellaswag", items=3))
    assert [row.id for row in found.rows] == ["validation:0", "validation:1", "validation:2"]
    assert len(prepare_task(benchmarks, asked("hellaswag")).rows) == 12
    test = prepare_task(benchmarks, asked("arc_easy", split="test"))
    assert [row.id for row in test.rows] == ["own_t1", "own_t2"]
    with pytest.raises(InputError, match=r"no split 'train' to ask \(splits: validation, test\)"):
        prepare_task(benchmarks, asked("arc_easy", split="train"))


def test_what_a_manifest_says(benchmarks, asked):
    facts = prepare_task(benchmarks, asked("hellaswag", 2)).manifest_facts()
    # Of twelve rows two are of v_own1 and two of wikihow~own5, two of v_own9.
    assert (facts["items"], facts["clusters"], facts["chance"]) == (12, 9, 25.0)
    assert facts["origins"] == {"activitynet": 8, "wikihow": 4}
    assert facts["demonstrations"] == ["wikihow~19|12", "wikihow~66|39"]


def test_chance_counts_each_rows_options(benchmarks, asked):
    # Two rows of three options, two of five, eight of four.
    expected = 100 * (2 / 3 + 2 / 5 + 8 / 4) / 12
    assert prepare_task(benchmarks, asked("arc_easy")).chance_percent == pytest.approx(expected)


def test_rows_may_be_left_out(own, asked):
    found = prepare_task(own, asked("piqa", items=3, leave_out=("validation:1",)))
    assert [row.id for row in found.rows] == ["validation:0", "validation:2"]
    with pytest.raises(InputError, match="no row of validation is left"):
        prepare_task(own, asked("piqa", leave_out=[f"validation:{n}" for n in range(12)]))
    # Such as those that cannot be asked.
    rewrite(own / "piqa", "validation", lambda records: records[4].pop("sol2"))
    assert len(prepare_task(own, asked("piqa", items=4)).rows) == 4
    assert len(prepare_task(own, asked("piqa", leave_out=("validation:4",))).rows) == 11


def other_folder(own):
    shutil.rmtree(own / "piqa")
    (own / "csqa").rename(own / "piqa")


def other_label(own):
    path = own / "piqa" / "validation.jsonl"
    path.write_text(path.read_text().replace('"label": 0', '"label": 1', 1))


def removed(name):
    return lambda own: atomic_files.remove_path(own / name)


def records(task, change):
    return lambda own: rewrite(own / task, "validation", change)


@pytest.mark.parametrize(
    ("damage", "task", "message"),
    [
        (removed("piqa"), "piqa", "was not fetched; do it with `pike fetch piqa --out"),
        (removed("piqa/validation.jsonl"), "piqa", "validation.jsonl does not exist: fetch it"),
        (other_folder, "piqa", "is not the manifest of piqa"),
        (other_label, "piqa", "validation.jsonl does not have the SHA-256"),
        (records("piqa", lambda r: r[4].pop("sol2")), "piqa", "^piqa validation:4: no field 'so"),
        (
            records("csqa", lambda r: r[2].update(answerKey="F")),
            "csqa",
            "^csqa validation:2: answer 'F' is none of the labels",
        ),
        (records("csqa", lambda r: r.append(r[0])), "csqa", "'own01' names more than one row"),
    ],
)
def test_what_cannot_be_asked_is_named(own, asked, damage, task, message):
    damage(own)
    with pytest.raises(InputError, match=message):
        prepare_task(own, asked(task))


def test_the_identity_covers_what_is_asked(own, asked):
    before = prepare_task(own, asked("csqa")).sha256()
    rewrite(own / "csqa", "validation", lambda records: records[0].update(answerKey="A"))
    assert prepare_task(own, asked("csqa")).sha256() != before


def row(key, cluster="c", query="q"):
    return Row(id=key, key=key, query=query, options=("a", "b"), gold=0, cluster=cluster)


@pytest.mark.parametrize("task", task_definitions.TASKS)
def test_demonstrations_are_disjoint_from_the_items(benchmarks, asked, task):
    found = prepare_task(benchmarks, asked(task, 7))
    assert len(found.demonstrations) == 7
    for name in ("key", "query", "cluster"):
        assert not {getattr(r, name) for r in found.demonstrations} & {
            getattr(r, name) for r in found.rows
        }


def test_the_order_without_a_list_is_that_of_a_hash():
    def order(task, others, seed):
        # Rows of an asked row's video are no demonstrations.
        asked = [row("video|0", cluster="video")]
        others = [*others, row("video|1", cluster="video")]
        return prepared_task.demonstration_candidates(task, asked, others, seed)

    others = [row(f"s{n}|{n}", cluster=f"s{n}") for n in range(20)]
    expected = sorted(
        others, key=lambda r: hashlib.sha256(f"pike-demos-v1|de|3|{r.key}".encode()).hexdigest()
    )
    assert order(GERMAN, others, 3) == order(GERMAN, others[::-1], 3) == expected
    assert order(GERMAN, others, 4) != expected
    assert order(task_definitions.translated_hellaswag_task("hi"), others, 3) != expected


SEVEN = [row(str(n)) for n in range(7)]
ENGLISH = task_definitions.HELLASWAG


@pytest.mark.parametrize(
    ("task", "asked", "demonstrations", "shots", "message"),
    [
        (ENGLISH, [], SEVEN, 8, r"8 shots.*7 demonstrations: lower shots$"),
        (GERMAN, [], [], 1, r"1 shots.*0 demonstrations: lower shots, or items"),
        (ENGLISH, [row("i")], [row("k")], 1, "'k' is also an evaluated question"),
    ],
)
def test_demonstrations_that_cannot_be_had_are_named(task, asked, demonstrations, shots, message):
    with pytest.raises(InputError, match=message):
        prepared_task.refuse_unfit_demonstrations(task, asked, demonstrations, shots)
