"""Downstream tasks within the evaluation of a run."""

import pyarrow.parquet as pq
import pytest
from recipes import written

from pike_mixing.errors import InputError
from pipeline.data import packing, sources
from pipeline.evaluation import answers
from pipeline.evaluation.evaluate import evaluate_chosen_checkpoints
from pipeline.evaluation.questions import task_questions
from pipeline.model import checkpoint
from pipeline.runtime import atomic_files
from pipeline.tasks.prepared_task import prepare_task

LENGTH = 400
TASKS = [
    {"task": "arc_easy", "shots": 7, "formulation": "mcf"},
    {"task": "piqa", "shots": 0, "formulation": "cf"},
]


@pytest.fixture(scope="session")
def prose(tokenizer, tmp_path_factory):
    """Folder with a corpus of the tokenizer's own text."""
    root = tmp_path_factory.mktemp("prose")
    texts = str(tokenizer.path.parent / "texts.jsonl")
    wanted = {"kind": "local", "files": [texts], "licence": "our own"}
    sources.download_source(written(root / "source.json", wanted), root / "documents")
    chosen = written(root / "packing.json", {"validation_share": 0.5})
    packing.pack_corpus(chosen, root / "documents", tokenizer.path, root / "corpora" / "prose")
    return root / "corpora"


@pytest.fixture
def finished(make_run, tokenizer, finish_untrained):
    """A run with the checkpoint of an untrained model."""
    path = make_run(
        domains=["prose"], training={"length": LENGTH, "steps": 3, "checkpoint_every": 3}
    )
    return finish_untrained(path, tokenizer.vocabulary)


@pytest.fixture
def ask(tmp_path, prose, tokenizer, finished):
    """Evaluates the run on some tasks; returns the folder of its evaluations."""

    def evaluated(tasks, folder):
        asked = {"rows": 2, "batch_tokens": 4096, "checkpoints": "last", "tasks": tasks}
        path = written(tmp_path / "evaluation.json", asked)
        options = {"tasks": folder, "device": "cpu"}
        evaluate_chosen_checkpoints(path, finished, prose, tokenizer.path, **options)
        return finished / "evaluations"

    return evaluated


def rows(out, table):
    return pq.read_table(out / "step3" / f"{table}.parquet").to_pylist()


@pytest.mark.slow
def test_a_run_answers_each_task_as_it_is_asked(ask, benchmarks, asked, tokenizer, finished):
    out = ask(TASKS, benchmarks)
    accuracies, choices = rows(out, "accuracies"), rows(out, "choices")
    model = checkpoint.load_model(finished / "checkpoints" / "step3")
    for task, shots, formulation in (("arc_easy", 7, "mcf"), ("piqa", 0, "cf")):
        benchmark = prepare_task(benchmarks, asked(task, shots, formulation))
        questions = task_questions(benchmark, tokenizer, LENGTH)
        items = questions.items
        told = answers.ask_model(model, questions, batch_tokens=99)
        own = [c for c in choices if c["task"] == task]
        assert {(c["step"], c["shots"], c["formulation"]) for c in own} == {(3, shots, formulation)}
        assert [c["item"] for c in own] == [row.id for row in benchmark.rows]
        for choice, sums, without, item in zip(own, told.sums, told.alone, items, strict=True):
            assert choice["sum_log_likelihood"] == pytest.approx(sums.tolist(), abs=1e-4)
            assert choice["unconditional"] == pytest.approx(without.tolist(), abs=1e-4)
            assert choice["tokens"] == [len(tokens) for tokens in item.candidates]
            assert choice["characters"] == list(item.characters)
            assert choice["bytes"] == list(item.bytes)
            assert (choice["gold"], choice["document"]) == (item.gold, item.cluster)
            assert choice["shots_used"] == shots
        assert [c["pick"] for c in own] == told.pick_I.tolist()
        assert [a["metric"] for a in accuracies if a["task"] == task] == list(answers.DOWNSTREAM)
        assert {a["examples"] for a in accuracies if a["task"] == task} == {len(items)}
        found = {a["metric"]: a["value"] for a in accuracies if a["task"] == task}
        expected = {name: value for name, (value, _) in told.accuracy.items()}
        assert found == pytest.approx(expected)


def test_the_manifest_names_the_data_sets_and_all_that_was_asked(ask, benchmarks):
    manifest = atomic_files.read_json(ask(TASKS, benchmarks) / atomic_files.MANIFEST)
    read = {name for name in manifest["inputs"] if "tmp" not in name}
    assert {name.split("/")[-2] for name in read} >= {"arc_easy", "piqa"}
    asked = manifest["tasks"]["arc_easy, 7-shot, mcf"]
    assert (asked["items"], asked["items_with_fewer_shots"]) == (12, 0)
    assert len(asked["demonstrations"]) == 7
    assert manifest["tasks"]["piqa, 0-shot, cf"]["chance"] == 50


def test_dropped_demonstrations_are_counted(ask, benchmarks):
    out = ask([{"task": "hellaswag", "shots": 7, "formulation": "hyb"}], benchmarks)
    used = [choice["shots_used"] for choice in rows(out, "choices")]
    assert min(used) < 7
    facts = atomic_files.read_json(out / atomic_files.MANIFEST)["tasks"]["hellaswag, 7-shot, hyb"]
    assert facts["items_with_fewer_shots"] == sum(n < 7 for n in used)


@pytest.mark.parametrize(
    ("tasks", "fetched", "expected"),
    [
        (TASKS[:1], False, r"arc_easy, 7-shot, mcf is asked: name the folder .* with --tasks"),
        (TASKS[:1] * 2, True, "tasks: arc_easy, 7-shot, mcf is asked twice: keep one"),
        (
            [{**TASKS[1], "task": "hellaswag_fr"}],
            True,
            "hellaswag_fr was not fetched; do it with `pike fetch",
        ),
        ([{**TASKS[0], "shots": 9}], True, "arc_easy: 9 shots were asked for"),
    ],
)
def test_what_cannot_be_asked_is_refused(ask, benchmarks, tasks, fetched, expected):
    with pytest.raises(InputError, match=expected):
        ask(tasks, benchmarks if fetched else None)
