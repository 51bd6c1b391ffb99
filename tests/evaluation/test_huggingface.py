"""Model directories of Hugging Face's transformers: small random ones of several architectures."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from pike_mixing.errors import InputError
from pipeline import __main__, settings
from pipeline.evaluation import readings, scoring
from pipeline.evaluation.prompt_encoding import encoded
from pipeline.evaluation.scoring import Question
from pipeline.model.transformer import initialised
from pipeline.runtime import atomic_files
from pipeline.tasks.benchmark import load

pytest.importorskip("transformers")

import transformers
from fetched import ask
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from twin import persimmon

from pipeline.evaluation import directory
from pipeline.evaluation.huggingface import Directory

CPU = torch.device("cpu")
VOCABULARY = 300
COMMON = {"vocab_size": VOCABULARY, "initializer_range": 0.3, "bos_token_id": 0, "eos_token_id": 0}
SMALL = {
    **COMMON,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
}
MODELS = {
    "llama": lambda: transformers.LlamaConfig(**SMALL),
    "gpt2": lambda: transformers.GPT2Config(
        **COMMON, n_embd=32, n_layer=2, n_head=4, n_positions=512
    ),
    # Behind so many tokens of the row an index is out of the window, wherever the token stands.
    "gpt_neo": lambda: transformers.GPTNeoConfig(
        **COMMON,
        hidden_size=32,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=12,
        max_position_embeddings=512,
    ),
    "mistral": lambda: transformers.MistralConfig(**SMALL, sliding_window=12),
    # Logits are bent behind the head.
    "gemma2": lambda: transformers.Gemma2Config(**SMALL, final_logit_softcapping=1.0),
    # Positions are those in the row.
    "bloom": lambda: transformers.BloomConfig(**COMMON, hidden_size=32, n_layer=2, n_head=4),
}


def made(name):
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(MODELS[name]()).eval()


def drawn(shared, count=6):
    """Questions whose contexts begin alike, of several lengths."""
    random = np.random.default_rng(0)

    def tokens(size):
        return random.integers(1, VOCABULARY, size).tolist()

    start = [0, *tokens(shared)]
    return [
        Question([*start, *tokens(1 + 3 * n)], [tokens(1 + m) for m in range(2 + n % 3)])
        for n in range(count)
    ]


def naive(model, question):
    """Each candidate behind its whole context, read alone."""
    sums = []
    for candidate in question.candidates:
        tokens = torch.tensor([[*question.context_C, *candidate]])
        with torch.no_grad():
            log_p = model(tokens[:, :-1]).logits[0].log_softmax(-1)[-len(candidate) :]
        sums.append(sum(float(row[t]) for row, t in zip(log_p, candidate, strict=True)))
    return sums


def compared(found, model, questions):
    for sums, question in zip(found, questions, strict=True):
        np.testing.assert_allclose(sums, naive(model, question), atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("budget", [1, 200])
def test_rows_of_their_own_give_what_the_model_says(name, budget):
    model, questions = made(name), drawn(10)
    found = readings.rows(model, questions, batch_tokens=budget, device=CPU)
    compared(found, model, questions)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("shared", [0, 30])
def test_models_that_take_masks_and_positions_are_read_side_by_side(name, shared):
    model, questions = made(name), drawn(shared)
    told = readings.verdict(model, [readings.tried(questions)], batch_tokens=300, device=CPU)
    assert (told.reading, told.difference < 1e-4) == ("blocks", True)
    compared(readings.blocks(model, questions, batch_tokens=100, device=CPU), model, questions)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gpt_neo", "other likelihoods than rows"),
        ("mistral", "other likelihoods than rows|side by side it fails"),
        ("gemma2", "other likelihoods than rows"),
        ("bloom", "BloomForCausalLM takes no position_ids"),
    ],
)
def test_others_are_found_out_by_trying(name, reason):
    model, questions = made(name), drawn(30)
    told = readings.verdict(model, [readings.tried(questions)], batch_tokens=300, device=CPU)
    assert told.reading == "rows"
    assert any(part in told.reason for part in reason.split("|"))


def test_a_window_that_no_question_reaches_does_not_matter():
    model, questions = made("gpt_neo"), drawn(0, count=2)
    told = readings.verdict(model, [questions], batch_tokens=300, device=CPU)
    assert told.reading == "blocks"


def test_the_questions_to_try_are_the_longest_the_shortest_and_one_between():
    sizes = [Question([0] * size, [[1]] * (5 - size)) for size in (3, 1, 2)]
    longer = [Question([0] * size, [[1, 2]]) for size in (7, 9)]
    assert readings.tried([*longer, *sizes]) == [sizes[0], sizes[2], longer[1]]
    assert readings.tried(longer[:1]) == longer[:1]


def test_the_same_weights_score_as_in_our_own_model():
    ours = initialised(settings.Model(2, 32, 4, 8), VOCABULARY, seed=0).eval()
    theirs = persimmon(ours, length=512)
    questions = drawn(30)
    expected = scoring.score(ours, questions, batch_tokens=200, device=CPU)
    for read in readings.SCORERS.values():
        found = read(theirs, questions, batch_tokens=200, device=CPU)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)


def test_a_model_that_gives_no_numbers_is_refused():
    model = made("llama")
    torch.nn.init.constant_(model.lm_head.weight, float("nan"))
    with pytest.raises(InputError, match=r"question 0: .* not all finite"):
        readings.verdict(model, [drawn(3)], batch_tokens=300, device=CPU)


def test_a_token_that_the_model_does_not_know_is_refused():
    with pytest.raises(InputError, match="question 0: token 300 is none of the model's 300"):
        readings.rows(made("llama"), [Question([0], [[300]])], batch_tokens=9, device=CPU)


@pytest.fixture(scope="session")
def pieces(tmp_path_factory):
    """A folder with a byte-level BPE tokenizer of the stand-ins' languages."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["</s>"], initial_alphabet=alphabet
    )
    made.train_from_iterator(["Question: What does a thermometer measure?\nAnswer:"], trainer)
    place = tmp_path_factory.mktemp("pieces")
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="</s>").save_pretrained(
        place
    )
    return place


@pytest.fixture
def saved(pieces, tmp_path):
    """Writes a model with its tokenizer as people publish them."""

    def save(name="llama", folder="model", **changes):
        place = tmp_path / folder
        config = MODELS[name]()
        for key, value in changes.items():
            setattr(config, key, value)
        torch.manual_seed(0)
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(place)
        for path in pieces.iterdir():
            (place / path.name).write_bytes(path.read_bytes())
        return place

    return save


@pytest.fixture
def asking(tmp_path):
    """A settings file of two ways to ask."""
    tasks = [
        {"task": "arc_easy", "shots": 1, "formulation": "cf"},
        {"task": "hellaswag", "shots": 0, "formulation": "cf", "items": 4},
    ]
    path = tmp_path / "asking.json"
    path.write_text(json.dumps({"tasks": tasks}), encoding="utf-8")
    return path


@pytest.mark.parametrize(("name", "reading"), [("llama", "blocks"), ("bloom", "rows")])
def test_the_command_asks_a_directory(saved, asking, benchmarks, tmp_path, capsys, name, reading):
    place, out = saved(name), tmp_path / "out"
    given = ["evaluate", asking, "--model", place, "--tasks", benchmarks, "--out", out]
    given += ["--length", "512"] if name == "bloom" else []
    assert __main__.main([*map(str, given), "--device", "cpu"]) == 0
    said = capsys.readouterr().out
    manifest = atomic_files.read_json(out / atomic_files.MANIFEST)
    assert (manifest["reading"], manifest["length"]) == (reading, 512)
    assert f"read by {reading}: {manifest['reading_reason']}" in said
    assert {"model.safetensors", "tokenizer.json", "config.json"} <= {
        name.split("/")[-1] for name in manifest["inputs"]
    }
    given = Directory(place, dtype="float32", length=512)
    rows = pq.read_table(out / "choices.parquet").to_pylist()
    benchmark = load(benchmarks, ask("arc_easy", 1))
    items = encoded(benchmark, given.pieces, 512)
    assert [row["item"] for row in rows[:12]] == [item.id for item in items]
    for row, item in zip(rows[:12], items, strict=True):
        expected = naive(given.model, Question(item.context_C, item.candidates))
        np.testing.assert_allclose(row["sum_log_likelihood"], expected, atol=1e-3)
    values = pq.read_table(out / "accuracies.parquet").to_pylist()
    points = [row["pick"] == row["gold"] for row in rows[:12]]
    (told,) = [v for v in values if v["task"] == "arc_easy" and v["metric"] == "per_token"]
    assert told["value"] == pytest.approx(100 * sum(points) / 12)
    assert f"arc_easy, 1-shot, cf             per_token {told['value']:5.1f} ±" in said


def test_a_runs_settings_and_rows_on_request_give_the_same(saved, asking, benchmarks, tmp_path):
    place, tables = saved(), []
    of_run = {"rows": 8, "batch_tokens": 512, "checkpoints": "all", "domains": ["prose"]}
    atomic_files.write_json(tmp_path / "run.json", {**atomic_files.read_json(asking), **of_run})
    for path, reading in ((asking, "auto"), (tmp_path / "run.json", "rows")):
        out = tmp_path / reading
        directory.evaluate(path, place, out, tasks=benchmarks, device="cpu", reading=reading)
        assert (atomic_files.read_json(out / atomic_files.MANIFEST)["reading"] == "rows") == (
            reading == "rows"
        )
        tables.append(pq.read_table(out / "accuracies.parquet").to_pylist())
    assert tables[0] == tables[1]


def test_a_directory_is_asked_behind_its_own_document_start(saved):
    given = Directory(saved(), dtype="float32", length=None)
    assert given.length == 512
    assert given.pieces.eos == 0
    text = "Answer: measure\nQuestion"
    assert given.pieces.encode([text, ""])[0].tolist() == [
        *given.pieces._tokenizer.encode(text, add_special_tokens=False)
    ]


def test_what_cannot_be_loaded_is_named(saved, tmp_path):
    def refused(place, match, **changes):
        with pytest.raises(InputError, match=match):
            Directory(place, **{"dtype": "float32", "length": None, **changes})

    refused(tmp_path / "nowhere", r"nowhere is no model directory: it has no config.json")
    place = saved(folder="whole")
    refused(place, "dtype 'int8' is unknown", dtype="int8")
    lacking = saved(folder="lacking", tie_word_embeddings=True)
    told = atomic_files.read_json(lacking / "config.json")
    atomic_files.write_json(lacking / "config.json", {**told, "num_hidden_layers": 3})
    refused(lacking, r"lacks 9 weights of LlamaForCausalLM, model.layers.2")
    (place / "model.safetensors").write_bytes(b"not safetensors")
    refused(place, r"whole cannot be loaded: ")
    (place / "model.safetensors").rename(place / "pytorch_model.bin")
    refused(place, "has no weights as safetensors")
    silent = saved(name="bloom", folder="silent")
    refused(silent, "does not say how many tokens .* give --length")
    strange = saved(folder="strange")
    told = atomic_files.read_json(strange / "config.json")
    atomic_files.write_json(strange / "config.json", {**told, "model_type": "made_up"})
    refused(strange, "strange cannot be loaded: ValueError")
    bare = saved(folder="bare")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (bare / name).unlink()
    refused(bare, "bare has no tokenizer that can be read")


@pytest.mark.parametrize(
    ("values", "changes", "expected"),
    [
        ([], {}, "is no table of settings"),
        ({"tasks": []}, {}, "tasks: name at least one task"),
        ({"task": "piqa"}, {}, "did you mean|unknown"),
        (None, {"reading": "both"}, "--reading 'both' is unknown"),
        (None, {"tasks": None}, "name the folder of the fetched tasks with --tasks"),
        (None, {"length": 30}, "do not fit into the 30 tokens"),
    ],
)
def test_wrong_questions_are_refused(
    saved, asking, benchmarks, tmp_path, values, changes, expected
):
    if values is not None:
        asking.write_text(json.dumps(values), encoding="utf-8")
    given = {"tasks": benchmarks, "device": "cpu", **changes}
    with pytest.raises(InputError, match=expected):
        directory.evaluate(asking, saved(), tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()
