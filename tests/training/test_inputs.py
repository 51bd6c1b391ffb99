"""What other runs leave for a run: reference models, found mixtures; and rows of comparison."""

import contextlib
import dataclasses
import functools
import os
import re
import shutil

import edits
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from trained import last_state, manifest, train_with

from pike_mixing import method_registry
from pike_mixing.errors import InputError
from pike_mixing.interface import Needs, ValidationNeed
from pike_mixing.rules.static import Mix
from pipeline import settings
from pipeline.data.batches import DomainRows
from pipeline.data.shards import Corpus
from pipeline.data.tokenizer import Tokenizer
from pipeline.model import checkpoint
from pipeline.model.transformer import token_losses
from pipeline.runtime import atomic_files, made_from
from pipeline.runtime.validate_settings import validate
from pipeline.training import train
from pipeline.training.inputs import read_inputs

DOREMI = {"rule": "doremi", "method": {"reference": "mix", "rate": 2.0}}


def table(run, name):
    return pq.read_table(run.parent / f"{name}.parquet").to_pylist()


def found(folder, weights, **facts):
    path = folder / "found.json"
    made_from.InputSnapshot("mixture", []).write_manifest(
        path, settings={}, files=[], facts={"weights_by_domain": weights, **facts}
    )
    return path


# Reference models.


@pytest.mark.slow
def test_the_proxy_weighs_losses_by_its_excess_over_the_reference(make_run, corpora, mixed):
    run = make_run(**DOREMI)
    train.pretrain(run, corpora, reference=mixed, device="cpu", threads=1)
    by_step = np.reshape([row["coefficient"] for row in table(run, "coefficients")], (6, 2))
    assert by_step.sum(axis=1) == pytest.approx(1)
    assert by_step[5, 0] != pytest.approx(0.5)
    assert last_state(run)["method.average_K"].sum() == pytest.approx(1)
    read = os.path.relpath(mixed / atomic_files.MANIFEST, run.parent)
    assert read in manifest(run)["inputs"]


def test_a_reference_that_knows_not_all_domains_is_refused(make_run, corpora, mixed, tmp_path):
    other = shutil.copytree(mixed, tmp_path / "other")
    edits.values("manifest.json", {"settings/domains": ["easy"], "domains": ["easy"]})(other)
    edits.values("checkpoints/step6/manifest.json", {"identity/run/domains": ["easy"]})(other)
    with pytest.raises(InputError, match="trained on easy, but the run on easy, hard"):
        train.pretrain(make_run(**DOREMI), corpora, reference=other, device="cpu")


@pytest.mark.slow
def test_another_reference_is_another_run(make_run, corpora, mixed, piked):
    run = make_run(**DOREMI)
    values = validate(settings.Run, atomic_files.read_json(run), "run")
    method = method_registry.build_method(values.rule, values.method, "run")
    first = read_inputs(values, method, corpora, mixed, None)
    second = read_inputs(values, method, corpora, piked, None)
    assert first.identity["corpora"] == second.identity["corpora"]
    assert first.identity != second.identity


# Weights of a model of transformers, and their tokenizer.


def test_weights_are_trained_on_with_their_own_tokenizer(make_run, corpora, tmp_path, caplog):
    weights = tmp_path / "weights"
    weights.mkdir()
    named = {"transformers": str(weights), "continued": True, "architecture": {"vocab_size": 64}}
    work = validate(settings.Run, atomic_files.read_json(make_run(model=named)), "run")
    opened = functools.partial(read_inputs, work, Mix(), corpora, None, None)
    ours = Tokenizer(corpora.parent / "symbols.model")
    opened()
    told = f"tokenizers.symbols has {ours.vocabulary} pieces and the embedding of {weights} 64"
    assert caplog.text.count(told) == 1
    caplog.clear()
    # The model's file may have pieces of its own beside ours; one number is enough to differ.
    for pieces, refused in (
        (ours.ids_by_piece | {"extra": 63}, None),
        (
            ours.ids_by_piece | {"<unk>": 63},
            r"tokenizers\.symbols: 1 of \d+ pieces, such as '<unk>'",
        ),
        (
            {"other": 0},
            rf"{ours.vocabulary} of {ours.vocabulary} pieces, .*weights/tokenizer\.json",
        ),
        ({}, r"weights/tokenizer\.json has no model\.vocab"),
    ):
        atomic_files.write_json(weights / "tokenizer.json", {"model": {"vocab": pieces}})
        with pytest.raises(InputError, match=refused) if refused else contextlib.nullcontext():
            opened()
    (weights / "tokenizer.json").unlink()
    shutil.copyfile(ours.path, weights / "spiece.model")
    opened()
    assert not caplog.records


# Found mixtures.


@pytest.mark.slow
def test_a_run_trains_on_the_mixture_that_it_is_given(make_run, corpora, tmp_path):
    run = make_run(rule="fixed", method={"mixture": "doremi"})
    mixture = found(tmp_path, {"hard": 2, "easy": 1})
    train.pretrain(run, corpora, mixture=mixture, device="cpu", threads=1)
    counts = {row["domain"]: row["count"] for row in table(run, "weights")}
    assert counts == {"easy": 2, "hard": 4}
    assert any(name.endswith("found.json") for name in manifest(run)["inputs"])


TUNED = {"zeta1": [0.1, 0.5], "zeta2": [0.01, 0.05]}


@pytest.mark.slow
def test_a_run_trains_with_the_settings_that_a_grid_chose(make_run, corpora, pike, tmp_path):
    rest = {name: value for name, value in pike["method"].items() if name not in TUNED}
    run = make_run("tuned", rule="pike", method=rest, tuned=TUNED)
    chosen = {"zeta1": 0.5, "zeta2": 0.01}
    given = found(tmp_path, {}, chosen=chosen)
    train.pretrain(run, corpora, mixture=given, device="cpu", threads=1)
    same = make_run("same", rule="pike", method=rest | chosen)
    train.pretrain(same, corpora, device="cpu", threads=1)
    assert table(run, "weights") == table(same, "weights")


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (None, "takes zeta1, zeta2 from a grid: give its choice with --mixture"),
        ({}, "gives {}, but method"),
        ({"zeta1": 0.1, "zeta2": 0.02}, "give the choice of that grid"),
    ],
)
def test_settings_that_no_grid_of_the_run_chose_are_refused(
    make_run, corpora, tmp_path, chosen, message
):
    run = make_run(rule="pike", method={"every": 2}, tuned=TUNED)
    given = None if chosen is None else found(tmp_path, {}, chosen=chosen)
    with pytest.raises(InputError, match=re.escape(message)):
        train.pretrain(run, corpora, mixture=given, device="cpu")


@pytest.mark.slow
def test_sizes_that_are_not_written_down_are_those_of_the_corpora(make_run, corpora):
    run = make_run(rule="temperature", method={"temperature": 1})
    train.pretrain(run, corpora, device="cpu", threads=1)
    tokens = {d: Corpus.open(corpora / d, "train").tokens for d in ("easy", "hard")}
    weights = {row["domain"]: row["weight"] for row in table(run, "weights")}
    for domain, weight in weights.items():
        assert weight == pytest.approx(tokens[domain] / sum(tokens.values()))


# Rows of comparison.


@dataclasses.dataclass(frozen=True)
class Comparing(Mix):
    """Keeps the losses that it is shown."""

    def needs(self):
        return Needs(validation=ValidationNeed(first=0, every=2, rows=4))

    def observe(self, state, signals):
        assert signals.loss_K is None
        seen = state.get("seen", np.empty((0, 2)))
        return {**state, "seen": np.concatenate([seen, signals.validation_loss_K[None]])}


@pytest.mark.slow
def test_losses_are_compared_on_the_same_rows_of_their_own_stream(make_run, corpora):
    # A rate of next to nothing: the model stays as it is, and so must the losses.
    still = {"peak_learning_rate": 1e-12, "initial_learning_rate": 0.0, "final_learning_rate": 0.0}
    run = make_run(training=still)
    train_with(Comparing(), run, corpora)
    seen = last_state(run)["method.seen"]
    assert len(seen) == 3
    opened = {d: Corpus.open(corpora / d, "train") for d in ("easy", "hard")}
    rows = DomainRows(opened, 8, 0, "comparison").read_tokens_at(np.array([4, 4]), np.array([0, 0]))
    model = checkpoint.load_model(run.parent / "checkpoints" / "step0")
    with torch.no_grad():
        nll_BxL = token_losses(model, torch.from_numpy(rows))
    expected = [nll_BxL[:4].mean().item(), nll_BxL[4:].mean().item()]
    for losses in seen:
        np.testing.assert_allclose(losses, expected, rtol=1e-5)


# How often the text is read.


@pytest.fixture
def hard_rows(corpora):
    """Rows of eight tokens."""
    return Corpus.open(corpora / "hard", "train").row_count(8)


@pytest.mark.slow
def test_a_finished_run_says_how_often_it_read_each_domain(make_run, corpora, hard_rows):
    run = make_run(rule="single", method={"domain": "hard"})
    train.pretrain(run, corpora, device="cpu", threads=1)
    expected = {"easy": 0.0, "hard": pytest.approx(6 * 6 / hard_rows)}
    assert manifest(run)["epochs"] == expected


@pytest.mark.slow
def test_a_run_stops_at_the_cap_of_a_domain(make_run, corpora, hard_rows):
    # Both domains together suffice; the one that the method takes runs out after three steps.
    training = {"max_epochs": 3.5 * 6 / hard_rows, "resume_every": 1}
    run = make_run(rule="single", method={"domain": "hard"}, training=training)
    with pytest.raises(InputError, match=r"'hard': all rows have been read.*trains anew"):
        train.pretrain(run, corpora, device="cpu", threads=1)
    assert max(atomic_files.step_entries(run.parent / "checkpoints")) == 3
