"""Models of transformers in the pipeline: what they compute is what their library computes."""

import json

import numpy as np
import pytest
import torch
from recipes import recipe
from test_arrangements import assert_resumes

from pike_mixing.errors import InputError
from pipeline import settings
from pipeline.evaluation import log_likelihoods
from pipeline.model import checkpoint, models
from pipeline.model.transformer import token_losses, trainable_parameter_count
from pipeline.planning import shorthand
from pipeline.runtime import model_folders

VOCABULARY = 64
SIZE = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 24}
LLAMA = {"model_type": "llama", **SIZE, **HEADS, "max_position_embeddings": 128}
RIGHT = {
    "attention": LLAMA,
    "tied": {**LLAMA, "tie_word_embeddings": True},
    "learned positions": {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2},
    "state-space": {"model_type": "mamba", **SIZE, "state_size": 4},
    "experts": {"model_type": "mixtral", **SIZE, **HEADS, "num_local_experts": 4},
}
BERT = {**SIZE, "num_attention_heads": 2, "intermediate_size": 24, "model_type": "bert"}
REFUSED = {
    "logits are not": {**LLAMA, "model_type": "gemma2", "head_dim": 8},
    "output layer": BERT,
    "sees the tokens that it is to predict": {
        **LLAMA,
        "model_type": "gemma3_text",
        "head_dim": 8,
        "use_bidirectional_attention": True,
    },
    "no causal model": {"model_type": "t5", "d_model": 16},
    "has none": {"model_type": "no-such-model"},
    "routers' loss": {**RIGHT["experts"], "output_router_logits": True},
}


def shape(architecture):
    return settings.Model(2, 16, 2, 8, 8, architecture=architecture)


def made(architecture, seed=0):
    pytest.importorskip("transformers")
    return models.initial_or_pretrained_model(shape(architecture), VOCABULARY, seed)


@pytest.mark.parametrize("kind", RIGHT)
def test_losses_and_scores_are_the_models_own(kind):
    model = made(RIGHT[kind])
    random = np.random.default_rng(0)
    tokens = torch.from_numpy(random.integers(2, VOCABULARY, (3, 12)))
    own = torch.stack([model.net(row[None], labels=row[None]).loss for row in tokens])
    torch.testing.assert_close(token_losses(model, tokens).mean(dim=1), own, rtol=1e-5, atol=1e-5)
    # Nine questions begin alike, with one and with many tokens; a tenth does not.
    start = random.integers(2, VOCABULARY, 70)
    questions = [
        log_likelihoods.Question(
            np.concatenate([start, random.integers(2, VOCABULARY, 1 + n % 4)]),
            [random.integers(2, VOCABULARY, 1 + (n + c) % 5) for c in range(1 + n % 3)],
        )
        for n in range(9)
    ]
    questions.append(log_likelihoods.Question([5, 6], [[7], [8, 9, 10]]))
    found = log_likelihoods.score_questions(model, questions, batch_tokens=600)
    for question, sums in zip(questions, found, strict=True):
        for candidate, result in zip(question.candidates, sums, strict=True):
            row = torch.tensor([[*question.context_C, *candidate]])
            with torch.no_grad():
                log_p = model.net(row).logits.log_softmax(-1)[0]
            first = len(question.context_C)
            own = sum(float(log_p[at - 1, row[0, at]]) for at in range(first, row.shape[1]))
            assert result == pytest.approx(own, abs=1e-4)


@pytest.mark.parametrize("said", REFUSED)
def test_what_would_be_computed_otherwise_is_refused(said):
    with pytest.raises(InputError, match=said):
        made(REFUSED[said])


@pytest.mark.parametrize("setting", ["compile", "activation_checkpointing"])
def test_what_only_the_paper_s_decoder_can_is_refused(setting):
    with pytest.raises(InputError, match=rf"training\.{setting}: leave.*it reads 128 tokens"):
        made(LLAMA).configure(recipe(length=400, **{setting: True}))


@pytest.fixture
def folder(tmp_path):
    """A model that was trained elsewhere."""
    model = made(RIGHT["tied"], seed=3)
    model.net.save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


def written_out(place, **values):
    models = {"own": {"transformers": str(place), "vocabulary_multiple": 8, **values}}
    return shorthand.expand_shorthand({"models": models})["models"]["own"]


def test_a_plan_reads_sizes_and_weights(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "head_dim": 6}))
    values = written_out(tmp_path)
    assert values["architecture"] == {**LLAMA, "head_dim": 6}
    sizes = [values[name] for name in ("layers", "width", "heads", "head_width")]
    assert sizes == [2, 16, 2, 6]
    assert written_out(tmp_path, layers=9)["layers"] == 9
    with pytest.raises(InputError, match=r"no weights .*leave `continued` out"):
        written_out(tmp_path, continued=True)
    (tmp_path / "model.safetensors").write_bytes(b"first")
    first = written_out(tmp_path, continued=True)["weights_sha256"]
    (tmp_path / "model.safetensors").write_bytes(b"other")
    assert written_out(tmp_path, continued=True)["weights_sha256"] != first
    for name in ("model.safetensors", "config.json"):
        (tmp_path / name).write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
        with pytest.raises(InputError, match=rf"{name} is a pointer of Git LFS.*git lfs pull"):
            written_out(tmp_path, continued=True)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="names no layers, width, heads: give them"):
        written_out(tmp_path)
    with pytest.raises(InputError, match="does not exist: name a folder"):
        written_out(tmp_path / "away")


def test_training_goes_on_from_weights_that_were_not_changed(folder):
    values = written_out(folder, continued=True)
    shape = settings.Model(**values)
    model = models.initial_or_pretrained_model(shape, shape.padded_vocabulary(50), 0)
    for name, weight in made(RIGHT["tied"], seed=3).state_dict().items():
        assert weight.equal(model.state_dict()[name]), name
    with pytest.raises(InputError, match="embedding of 64 pieces and the tokenizer 99"):
        models.initial_or_pretrained_model(shape, shape.padded_vocabulary(99), 0)
    (folder / "model.safetensors").write_bytes(b"other")
    assert model_folders.folder_weights_digest(folder) != shape.weights_sha256
    with pytest.raises(InputError, match="changed since the run was planned"):
        models.initial_or_pretrained_model(shape, VOCABULARY, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tied", "state-space"])
def test_a_run_that_was_stopped_ends_with_the_same_bits(kind, make_run, corpora):
    pytest.importorskip("transformers")
    own = {"vocabulary_multiple": 8, "architecture": RIGHT[kind]}
    folder = assert_resumes(make_run(model=own), corpora)
    again = checkpoint.load_model(folder / "checkpoints" / "step6")
    values = json.loads((folder / "manifest.json").read_text())
    assert trainable_parameter_count(again) == values["parameters"]
