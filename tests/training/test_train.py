"""The loop on tiny runs: what it writes, and that nothing on the way changes the last bit of it."""

import dataclasses
import itertools
import os
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from trained import last_state, manifest, outcome, rows, train, train_with

from pike_mixing.apportion import apportion
from pike_mixing.interface import Needs, StatisticsNeed
from pike_mixing.rules.static import Mix
from pipeline import settings
from pipeline.model import checkpoint
from pipeline.runtime import atomic_files
from pipeline.runtime.validate_settings import validate
from pipeline.training import step_log
from pipeline.training import train as pretrain
from pipeline.training.metric_log import TABLES


@pytest.mark.slow
def test_a_run_ends_with_checkpoints_records_and_a_manifest(make_run, corpora):
    run = make_run(training={"resume_every": 2})
    result = train(run, corpora)
    found = manifest(run)
    assert found["run"] == "languages/tiny/any/seed0"
    assert found["settings"] == atomic_files.read_json(run)
    assert found["domains"] == ["easy", "hard"]
    assert (found["steps"], found["tokens"], found["resumes"]) == (6, 6 * 6 * 8, 0)
    # Steps 2 and 4 only served to go on after an interruption.
    assert found["checkpoints"] == [0, 3, 6] == list(result["checkpoints"])
    assert found["weights_sha256"] == result["checkpoints"][6]
    net = checkpoint.load_model(run.parent / "checkpoints" / "step6")
    assert found["parameters"] == sum(p.numel() for p in net.parameters())
    assert found["wall_seconds"] > 0
    assert found["tokens_per_second"] == pytest.approx(found["tokens"] / found["wall_seconds"])
    sums = {name: file["sha256"] for name, file in found["files"].items()}
    for step, sha256 in result["checkpoints"].items():
        assert sums.pop(f"checkpoints/step{step}/model.safetensors") == sha256
    assert set(sums) == {f"{table}.parquet" for table in TABLES}
    assert list(found["inputs"]) == [
        os.path.relpath(corpora / domain / atomic_files.MANIFEST, run.parent)
        for domain in ("easy", "hard")
    ]
    assert not (run.parent / "lease.json").exists()


def test_every_step_is_recorded(mixed):
    result = outcome(mixed)
    steps = rows(result, "steps")
    assert [row["step"] for row in steps] == list(range(6))
    assert [row["tokens"] for row in steps] == [48 * n for n in range(1, 7)]
    assert steps[0]["learning_rate"] == 0.001
    assert steps[2]["learning_rate"] == 0.01
    assert steps[5]["learning_rate"] == 0.001
    # Equal counts: the batch's loss is the mean of the domains'.
    losses = rows(result, "domain_losses")
    for step in steps:
        own = [row["loss"] for row in losses if row["step"] == step["step"]]
        assert step["loss"] == pytest.approx(sum(own) / 2)
    assert rows(result, "weights")[0] == {"step": 0, "domain": "easy", "weight": 0.5, "count": 3}
    # Nothing is known of the peak of a CPU.
    assert pq.read_table(mixed / "steps.parquet")["model_flops_utilisation"].null_count == 6


@pytest.mark.slow
def test_the_pace_of_every_step_is_recorded(make_run, corpora):
    run = make_run()
    pretrain.pretrain(run, corpora, device="cpu", peak_flops=1e9)
    work = validate(settings.Run, atomic_files.read_json(run), "run")
    net = checkpoint.load_model(run.parent / "checkpoints" / "step6")
    flops = step_log.model_flops_per_token(net, work.model, 8)
    for row in pq.read_table(run.parent / "steps.parquet").to_pylist():
        assert row["tokens_per_second"] == pytest.approx(48 / row["seconds"])
        expected = flops * row["tokens_per_second"] / 1e9
        assert row["model_flops_utilisation"] == pytest.approx(expected)
        assert 2**20 < row["memory_bytes"] < 2**36


@pytest.mark.slow
def test_training_lowers_the_loss(make_run, corpora):
    training = {"steps": 60, "checkpoint_every": 60, "resume_every": 60}
    steps = rows(train(make_run(training=training), corpora), "steps")
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.5


@pytest.mark.slow
def test_a_method_of_one_domain_a_step_leaves_the_others_loss_empty(make_run, corpora):
    result = train(make_run(rule="round-robin"), corpora)
    given = [(row["step"], row["domain"], row["loss"]) for row in rows(result, "domain_losses")]
    for step, domain, loss in given:
        assert (loss is None) == ((domain == "easy") == (step % 2 == 1))


# What a run is a function of.


def test_the_same_run_elsewhere_ends_with_the_same_bits(make_run, corpora, pike, piked):
    """With blocks that are computed again, too."""
    torch.manual_seed(99)
    run = make_run(**pike)
    pretrain.pretrain(run, corpora, device="cpu", recompute=True)
    assert outcome(run.parent) == outcome(piked)


def test_another_seed_is_another_run(make_run, corpora, mixed):
    first, second = outcome(mixed), train(make_run(seed=1), corpora)
    assert first["checkpoints"][0] != second["checkpoints"][0]
    assert first["checkpoints"][6] != second["checkpoints"][6]


@pytest.mark.slow
def test_statistics_do_not_change_the_rows_that_are_trained_on(make_run, corpora, pike, mixed):
    # Without a step size PiKE keeps equal weights: it must train on the rows of Mix.
    still = {**pike, "method": {**pike["method"], "zeta1": 0, "zeta2": 0}}
    measured, expected = train(make_run(**still), corpora), outcome(mixed)
    assert measured["checkpoints"] == expected["checkpoints"]
    assert measured["steps"] == expected["steps"]


# Statistics.


def test_pike_measures_when_it_is_due(piked):
    result = outcome(piked)
    statistics = rows(result, "gradient_statistics")
    assert [(row["step"], row["domain"]) for row in statistics] == [
        (step, domain) for step in (0, 2, 4) for domain in ("easy", "hard")
    ]
    assert all(row["rows"] == 3 for row in statistics[:2])
    assert all(row["variance"] > 0 for row in statistics)
    # What measuring took, of all domains together, is a part of what its step took.
    seconds, of_steps = (
        pq.read_table(piked / f"{table}.parquet")["seconds"].to_pylist()
        for table in ("gradient_statistics", "steps")
    )
    assert seconds[::2] == seconds[1::2]
    assert all(0 < a < b for a, b in zip(seconds[::2], of_steps[::2], strict=True))


def test_recorded_weights_follow_from_recorded_statistics_and_counts_from_them(piked):
    result = outcome(piked)
    statistics, weights = rows(result, "gradient_statistics"), rows(result, "weights")
    log_weights_K = torch.zeros(2, dtype=torch.float64)
    for step in range(6):
        for row in (r for r in statistics if r["step"] == step):
            k = ("easy", "hard").index(row["domain"])
            norm = max(row["squared_norm_unbiased"], 0)
            log_weights_K[k] += 0.5 * norm - 0.1 / (2 * 6) * row["variance"]
        expected_K = torch.softmax(log_weights_K, dim=0).tolist()
        own = [row["weight"] for row in weights if row["step"] == step]
        assert own == pytest.approx(expected_K, rel=1e-12)
        counts = [row["count"] for row in weights if row["step"] == step]
        assert counts == apportion(np.array(own), 6).tolist()
    assert len({row["weight"] for row in weights if row["domain"] == "easy"}) == 3


@pytest.mark.slow
def test_a_domain_with_a_small_share_is_measured_on_the_rows_that_are_asked_for(
    make_run, corpora, pike
):
    method = {**pike["method"], "prior": {"easy": 0.9, "hard": 0.1}}
    result = train(make_run(rule="pike", method=method), corpora)
    # 6 * 0.9 = 5.4 and 6 * 0.1 = 0.6: five rows and one, of which the latter is raised to three.
    assert [row["rows"] for row in rows(result, "gradient_statistics")[:2]] == [5, 3]


@pytest.mark.slow
def test_statistics_of_the_training_batch_come_from_its_rows(make_run, corpora, pike, tmp_path):
    # Small enough steps that every domain keeps the two rows of a measurement.
    zetas = {name: pike["method"][name] / 4 for name in ("zeta1", "zeta2")}
    method = {**pike["method"], **zetas, "batch": "training"}
    result = train(make_run(rule="pike", method=method), corpora)
    statistics, losses = rows(result, "gradient_statistics"), rows(result, "domain_losses")
    assert [row["loss"] for row in statistics[:2]] == pytest.approx(
        [row["loss"] for row in losses[:2]]
    )
    # They come out of the step's own pass, and count from the next step on.
    seconds = pq.read_table(tmp_path / "run" / "gradient_statistics.parquet")["seconds"]
    assert seconds.null_count == len(statistics) == 6
    weights = [row["weight"] for row in rows(result, "weights") if row["domain"] == "easy"]
    assert [a != b for a, b in itertools.pairwise(weights)] == [True, False, True, False, True]


# The seams, with toy methods that no table knows.


@dataclasses.dataclass(frozen=True)
class Watching(Mix):
    """Keeps what it is shown in its state."""

    def needs(self):
        return Needs(losses=True, statistics=StatisticsNeed(first=1, every=2, fresh=True, rows=4))

    def observe(self, state, signals):
        if signals.loss_K is not None:
            assert signals.statistics is None or signals.count_K is not None
            seen = state.get("seen", np.empty((0, 2)))
            state = {**state, "seen": np.concatenate([seen, signals.loss_K[None]])}
            state["weights_K"] += [1e-3, -1e-3]
        if signals.statistics is not None:
            rows_K = signals.statistics.rows_K
            state = {**state, "measured": state.get("measured", np.zeros(2)) + rows_K}
        return state


@pytest.mark.slow
def test_a_method_sees_what_it_asks_for_and_its_state_is_kept(make_run, corpora):
    run = make_run()
    result = train_with(Watching(), run, corpora)
    losses = [row["loss"] for row in rows(result, "domain_losses")]
    kept = last_state(run)
    assert kept["method.seen"].flatten().tolist() == losses
    # It is recorded with what the batch was drawn by, though its state is written into.
    weights = [row["weight"] for row in rows(result, "weights")]
    assert weights[:4] == [0.5, 0.5, 0.501, 0.499]
    # Statistics at steps 1, 3 and 5, of four rows each.
    assert kept["method.measured"].tolist() == [12, 12]
    assert kept["positions_K"].tolist() == [18, 18]
    assert kept["statistics_positions_K"].tolist() == [12, 12]


@pytest.mark.slow
def test_systematic_rounding_serves_small_weights_over_the_steps(make_run, corpora):
    method = {"weights_by_domain": {"easy": 1, "hard": 15}}
    run = make_run(rule="fixed", method=method, training={"rounding": "systematic", "steps": 8})
    counts = [r["count"] for r in rows(train(run, corpora), "weights") if r["domain"] == "easy"]
    # 6 rows x 8 steps / 16 = 3, give or take the one that step 8 would even out.
    assert sum(counts) in (2, 3, 4)
    # By the largest remainder there is none.
    assert apportion(np.array([1, 15]) / 16, 6).tolist() == [0, 6]


@pytest.mark.slow
def test_a_domain_that_gets_worse_is_recorded_and_moves_no_weight(make_run, corpora, caplog):
    recipe = {"steps": 12, "peak_learning_rate": 0.05, "resume_every": 4, "checkpoint_every": 4}
    looks = recipe | {"validation_every": 5}
    only_easy = {"rule": "fixed", "method": {"weights_by_domain": {"easy": 1.0, "hard": 0.0}}}
    plain = train(make_run("plain", training=recipe, **only_easy), corpora)
    run = make_run("watched", training=looks, **only_easy)
    watched = train(run, corpora)
    assert watched["checkpoints"] == plain["checkpoints"]
    (alarm,) = rows(watched, "alarms")
    assert (alarm["step"], alarm["kind"], alarm["domain"]) == (5, "worse", "hard")
    assert f"step 5: {alarm['message']}" in caplog.text
    # Goes on at step 4, and looks again at 5, 10 and the end.
    for step in (8, 12):
        shutil.rmtree(run.parent / "checkpoints" / f"step{step}")
    assert train(run, corpora) == watched
    assert manifest(run)["resumes"] == 1


@pytest.mark.slow
def test_pike_that_moves_no_row_says_so(make_run, corpora, pike):
    training = {"steps": 12, "checkpoint_every": 4, "resume_every": 2, "alarms": {"window": 5}}
    small = pike["method"] | {"zeta1": 1e-6, "zeta2": 1e-6}
    run = make_run(training=training, **pike | {"method": small})
    found = train(run, corpora)
    told = {r["step"]: r["message"] for r in rows(found, "alarms") if r["kind"] == "never-moved"}
    # Measured from step 0 on: the first window ends with step 4.
    assert list(told) == [4, 11]
    assert "raise zeta1 and zeta2 by about" in told[11]
    assert "by what was measured zeta1 = " in told[4]
    # Going on within each of the two spans tells the same.
    for lost in ((12,), (8, 12)):
        for step in lost:
            shutil.rmtree(run.parent / "checkpoints" / f"step{step}")
        assert train(run, corpora) == found
