import math

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from recipes import written

from pike_mixing.errors import InputError
from pipeline.data.shards import Corpus
from pipeline.evaluation.gradient_similarities import gradient_similarities, probe_gradients
from pipeline.model import checkpoint
from pipeline.model.transformer import token_losses
from pipeline.runtime import atomic_files

ASKED = {"rows": 12, "microbatch": 3, "checkpoints": "all", "split": "validation"}


@pytest.fixture
def probed(tmp_path, corpora):
    """Probes a run with settings laid over `ASKED`; returns the rows of the last checkpoint."""

    def ask(run, **changes):
        path = written(tmp_path / "probe.json", {**ASKED, **changes})
        probe_gradients(path, run, corpora, device="cpu")
        return pq.read_table(run / "probes" / "step3.parquet").to_pylist()

    return ask


@pytest.mark.parametrize(
    ("norms", "unbiased", "cosine", "ratio", "corrected"),
    [
        # (1, 0) and (3, 4); without noise the squared norms would be 1/4 and 9.
        ((1, 25), (0.25, 9), 3 / 5, 3 / 26, 3 / 1.5),
        *(((1, 25), (wrong, 9), 3 / 5, 3 / 26, math.nan) for wrong in (0, -1, math.nan)),
        ((1, 25), (-1, -9), 3 / 5, 3 / 26, math.nan),
    ],
)
def test_two_gradients_of_two_numbers_by_hand(norms, unbiased, cosine, ratio, corrected):
    gram = np.array([[norms[0], 3.0], [3.0, norms[1]]])
    found = gradient_similarities(gram, np.array(unbiased, float))
    pair = [value[0, 1] for value in found.values()]
    assert list(found) == ["cosine", "ratio", "cosine_corrected"]
    assert pair == pytest.approx([cosine, ratio, corrected], nan_ok=True)
    assert pair == pytest.approx([value[1, 0] for value in found.values()], nan_ok=True)
    assert (found["cosine"][0, 0], found["ratio"][0, 0]) == (1, 0.5)


def test_a_zero_gradient_is_similar_to_nothing():
    found = gradient_similarities(np.diag([0.0, 25.0]), np.array([0.0, 25.0]))
    assert found["ratio"][0, 1] == 0
    assert np.isnan([found["cosine"][0, 1], found["ratio"][0, 0]]).all()


def brute_force(run, corpora, split="validation", rows=12):
    """Gradients of step 3 by plain autograd, each domain's rows at once, flattened."""
    model = checkpoint.load_model(run / "checkpoints" / "step3")
    found = []
    for domain in ("easy", "hard"):
        corpus = Corpus.open(corpora / domain, split)
        chosen = np.array([i * corpus.row_count(8) // rows for i in range(rows)])
        loss = token_losses(model, torch.from_numpy(corpus.read_rows(chosen, 8))).mean()
        gradient = torch.autograd.grad(loss, list(model.parameters()))
        found.append(torch.cat([g.flatten() for g in gradient]).double())
    return found


@pytest.mark.parametrize("split", ["validation", "train"])
def test_the_numbers_are_those_of_plain_autograd(finished, probed, corpora, split):
    run = finished()
    (row,) = probed(run, split=split)
    easy, hard = brute_force(run, corpora, split)
    inner = float(easy @ hard)
    assert (row["step"], row["domain_a"], row["domain_b"]) == (3, "easy", "hard")
    assert row["cosine"] == pytest.approx(inner / float(easy.norm() * hard.norm()), rel=1e-4)
    ratio = inner / float(easy.norm() ** 2 + hard.norm() ** 2)
    assert row["ratio"] == pytest.approx(ratio, rel=1e-4)


def test_one_group_of_rows_tells_nothing_of_the_noise(finished, probed):
    (row,) = probed(finished(), microbatch=12)
    assert row["cosine_corrected"] is None


def test_each_pair_comes_once_in_the_order_of_the_domains(finished, probed):
    (row,) = probed(finished(domains=["hard", "easy"]))
    assert (row["domain_a"], row["domain_b"]) == ("hard", "easy")
    assert probed(finished(folder="one", domains=["easy"])) == []


def test_the_manifest_lists_what_was_read_and_written(finished, probed):
    run = finished()
    probed(run)
    manifest = atomic_files.read_json(run / "probes" / atomic_files.MANIFEST)
    assert manifest["stage"] == "probe"
    assert manifest["settings"] == ASKED
    assert manifest["rows"] == {"easy": 12, "hard": 12}
    assert set(manifest["files"]) == {"step0.parquet", "step3.parquet"}
    for name, recorded in manifest["inputs"].items():
        assert atomic_files.sha256(run / "probes" / name) == recorded


def test_a_diverged_model_stops_it_naming_run_step_and_domain(finished, probed):
    run = finished(change=lambda model: model.norm.weight.data.fill_(math.inf))
    with pytest.raises(InputError, match="languages/tiny/any/seed0, step 3, domain easy"):
        probed(run)
    assert not (run / "probes").exists()


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ({"training": {"length": 100_000}}, "fewer than one row of 100000 tokens"),
        ({"vocabulary": 72}, "embedding of 72 pieces"),
    ],
)
def test_what_cannot_be_probed_is_refused(finished, probed, run, told):
    with pytest.raises(InputError, match=told):
        probed(finished(**run))
