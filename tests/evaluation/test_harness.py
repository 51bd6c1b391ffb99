"""Our model through lm-evaluation-harness's interface."""

import json

import pytest
import torch
from fetched import checkpointed

from pike_mixing.errors import InputError
from pipeline.model import checkpoint
from pipeline.runtime import atomic_files

pytest.importorskip("lm_eval")

from lm_eval.api.instance import Instance
from lm_eval.api.registry import get_model, model_registry

from pipeline.evaluation import harness

LENGTH = 48


@pytest.fixture(scope="session")
def tokenizer(tokenizers):
    return tokenizers["unigram, with line breaks"]


@pytest.fixture(scope="session")
def step(tmp_path_factory, write_run, tokenizer):
    """A checkpoint within a run whose rows are 48 tokens long."""
    run = tmp_path_factory.mktemp("run")
    write_run(run, training={"length": LENGTH})
    return checkpointed(run / "checkpoints" / "step0", tokenizer)


@pytest.fixture(scope="session")
def load(step, tokenizer):
    def make(**changes):
        given = {"checkpoint": str(step), "tokenizer": str(tokenizer.path), "device": "cpu"}
        return harness.HarnessModel(**{**given, **changes})

    return make


@pytest.fixture(scope="session")
def pike(load):
    return load()


def asked(kind, *arguments):
    return [Instance(kind, {}, given, 0, ("a_task", n, 1)) for n, given in enumerate(arguments)]


def read(model, tokens):
    """Logarithmic probabilities of each next token, by the definition."""
    with torch.no_grad():
        return model(torch.tensor([tokens]))[0].log_softmax(-1)


def told(pike, context, continuation):
    """Sum over the continuation's tokens and whether each is the likeliest, read alone."""
    log_p = read(pike.model, [*context, *continuation])
    rows = [log_p[len(context) - 1 + n] for n in range(len(continuation))]
    total = sum(float(row[token]) for row, token in zip(rows, continuation, strict=True))
    return total, all(int(row.argmax()) == t for row, t in zip(rows, continuation, strict=True))


def test_the_harness_knows_our_model_by_name_and_its_own_too():
    assert get_model("pike") is harness.HarnessModel
    assert {"hf", "pike"} <= set(model_registry.keys())


def test_requests_are_scored_behind_the_document_start_in_their_order(pike, tokenizer):
    pairs = [
        ("Question: What does a thermometer measure?\nAnswer:", " temperature"),
        ("", "A man stands"),
        ("Question: What does a thermometer measure?\nAnswer:", " mass"),
        ("A man stands at a sink. ", "He"),
    ]
    found = pike.loglikelihood(asked("loglikelihood", *pairs))
    for (context, continuation), (value, greedy) in zip(pairs, found, strict=True):
        whole = tokenizer.encode([context + continuation])[0].tolist()
        before = len(tokenizer.encode([context.rstrip()])[0])
        expected = told(pike, [tokenizer.eos, *whole[:before]], whole[before:])
        assert (value, greedy) == (pytest.approx(expected[0], abs=1e-4), expected[1])


def test_what_the_model_would_say_is_greedy(pike, tokenizer):
    """Contexts that a word follows: the likeliest piece brings a space."""
    said = {}
    for last in range(20):
        context = f"A man stands at sink {last}."
        start = [tokenizer.eos, *tokenizer.encode([context])[0].tolist()]
        likeliest = int(read(pike.model, start)[-1].argmax())
        whole = tokenizer.decode([*start[1:], likeliest]) if likeliest < 700 else ""
        if tokenizer.encode([whole])[0].tolist() == [*start[1:], likeliest]:
            said[context] = whole.removeprefix(context)
    assert said
    for context, word in said.items():
        found = pike.loglikelihood(asked("loglikelihood", (context, word), (context, " mass")))
        assert [greedy for _, greedy in found] == [True, False]


def test_the_document_start_can_be_left_out(load, tokenizer):
    bare = load(document_start=False)
    context, continuation = "A man stands at a sink.", " He"
    whole = tokenizer.encode([context + continuation])[0].tolist()
    before = len(tokenizer.encode([context])[0])
    found = bare.loglikelihood(asked("loglikelihood", (context, continuation)))
    expected = told(bare, whole[:before], whole[before:])
    assert found[0][0] == pytest.approx(expected[0], abs=1e-4)


@pytest.mark.parametrize("length", [5, 7, 48])
def test_a_text_is_read_in_windows_and_each_token_scored_once(load, tokenizer, length):
    """Windows of T tokens begin at every T-th; the last one is filled up from before."""
    short = load(length=length)
    text = "A man stands at a sink full of plates. He scrubs a plate."
    tokens = [tokenizer.eos, *tokenizer.encode([text])[0].tolist()]
    expected, n = 0.0, len(tokens) - 1
    for first in range(0, n, length):
        scored = min(length, n - first)
        begin = max(0, first + scored - length)
        row = tokens[begin : first + scored + 1]
        log_p = read(short.model, row[:-1])
        at = range(len(row) - 1 - scored, len(row) - 1)
        expected += sum(float(log_p[i, row[i + 1]]) for i in at)
    found = short.loglikelihood_rolling(asked("loglikelihood_rolling", (text,), ("",)))
    assert found == [pytest.approx(expected, abs=1e-4), 0.0]


@pytest.mark.parametrize(
    ("context", "continuation", "expected"),
    [
        ("A man stan", "ds at a sink", r"a_task, item 0: the context does not end between two"),
        ("A man", "", r"item 0: the continuation '' has no token"),
        (
            "A man stands. " * 40,
            "He",
            r"item 0: \d+ tokens do not fit into the 48 that .* --num_fewshot",
        ),
    ],
)
def test_what_the_harness_would_cut_is_refused(pike, context, continuation, expected):
    with pytest.raises(InputError, match=expected):
        pike.loglikelihood(asked("loglikelihood", (context, continuation)))


def test_generated_text_is_refused(pike):
    with pytest.raises(InputError, match="a_task asks for generated text"):
        pike.generate_until(asked("generate_until", ("A man", {"until": ["."]})))


def test_a_model_that_diverged_is_refused(load):
    broken = load()
    torch.nn.init.constant_(broken.model.embedding.weight, float("nan"))
    with pytest.raises(InputError, match="not all finite"):
        broken.loglikelihood(asked("loglikelihood", ("A man", " stands")))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"chekpoint": "x"}, "--model_args: chekpoint unknown; write checkpoint=DIR,tokenizer="),
        ({"tokenizer": ""}, "--model_args: checkpoint or tokenizer missing"),
        ({"checkpoint": "nowhere"}, r"nowhere/manifest.json does not exist"),
        ({"device": "tpu9"}, "device 'tpu9' is unknown"),
    ],
)
def test_wrong_arguments_are_named(load, changes, expected):
    with pytest.raises(InputError, match=expected):
        load(**changes)


def test_another_tokenizer_is_refused(load, step, tmp_path):
    manifest = atomic_files.read_json(step / atomic_files.MANIFEST)
    place = tmp_path / "step0"
    place.mkdir()
    model = checkpoint.load_model(step)
    assert model.vocabulary == manifest["vocabulary"] == 768
    for path in step.iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    shape = {**manifest["model"], "vocabulary_multiple": 1}
    atomic_files.write_json(place / atomic_files.MANIFEST, {**manifest, "model": shape})
    with pytest.raises(InputError, match=r"an embedding of 768 pieces, which is not that of"):
        load(checkpoint=str(place))


def test_a_checkpoint_outside_a_run_needs_its_length(load, tmp_path, tokenizer):
    place = checkpointed(tmp_path / "a" / "b" / "step0", tokenizer)
    with pytest.raises(InputError, match=r"run.json does not exist, .* add length=N"):
        load(checkpoint=str(place))
    assert load(checkpoint=str(place), length=9).get_model_info()["max_length"] == 9


@pytest.mark.slow
def test_the_command_runs_a_task_of_the_harness(run_pipeline, step, tokenizer, tmp_path):
    rows = [{"text": "A man", "choices": ["stands", "sings"], "gold": n % 2} for n in range(4)]
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    task = {
        "task": "own_task",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}, "cache_dir": str(tmp_path)},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "text",
        "doc_to_choice": "choices",
        "doc_to_target": "gold",
    }
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "own_task.yaml").write_text(json.dumps(task), encoding="utf-8")
    given = ["lm-eval", "--model", "pike", "--tasks", "own_task", "--device", "cpu"]
    given += ["--include_path", tmp_path / "tasks", "--output_path", tmp_path / "out.json"]
    weights = f"checkpoint={step},tokenizer={tokenizer.path}"
    done = run_pipeline(*given, "--model_args", weights)
    assert done.returncode == 0, done.stderr
    (result,) = tmp_path.glob("out_*.json")
    found = atomic_files.read_json(result)
    assert found["results"]["own_task"]["acc,none"] == 0.5
    assert found["config"]["tokenizer_sha256"] == tokenizer.sha256
    done = run_pipeline(*given, "--model_args", "checkpoint=nowhere,tokenizer=x")
    assert (done.returncode, "x does not exist" in done.stderr) == (2, True)
    assert "Traceback" not in done.stderr
