"""The loop on tiny runs: what it writes, and that nothing on the way changes the last bit of it."""

import dataclasses
import itertools
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from benchmarks.interruption import LAUNCHER
from pipeline import checkpoint, devices, files, inputs, lease, pretrain, settings, throughput
from pipeline.__main__ import main
from pipeline.errors import InputError
from pipeline.mixing import METHODS, registry
from pipeline.mixing.mix import Mix
from pipeline.mixing.seams import Needs, StatisticsNeed
from pipeline.records import TABLES

CLOCK = ("seconds", "tokens_per_second", "model_flops_utilisation", "memory_bytes")
"""Columns that differ from run to run."""
PIKE = {"zeta1": 0.5, "zeta2": 0.1, "every": 2, "rows": 3}


@pytest.fixture(autouse=True)
def one_thread():
    """Sums differ in the last bits with the number of threads, as they may between processes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory, write_run, corpora):
    """Folder of a finished run of Mix."""
    run = write_run(tmp_path_factory.mktemp("mixed"))
    pretrain.pretrain(run, corpora, device="cpu", threads=1)
    return run.parent


@pytest.fixture(scope="module")
def piked(tmp_path_factory, write_run, corpora, pike):
    """Folder of a finished run of PiKE."""
    run = write_run(tmp_path_factory.mktemp("piked"), **pike)
    pretrain.pretrain(run, corpora, device="cpu", threads=1)
    return run.parent


@pytest.fixture
def finished(piked, tmp_path):
    """A copy of PiKE's run, to be harmed; its `run.json`."""
    return shutil.copytree(piked, tmp_path / "finished") / "run.json"


def train(run, corpora):
    pretrain.pretrain(run, corpora, device="cpu")
    return outcome(run.parent)


def train_with(method, run, corpora):
    """The loop with a method that is in no table."""
    values = files.read_json(run)
    work = settings.parse(settings.Run, values, str(run))
    with lease.held(run.parent) as held:
        given = inputs.read(work, method, corpora, None, None)
        pretrain._Training(work, method, values, given, devices.pick("cpu"), held).run()
    return outcome(run.parent)


def outcome(folder):
    """All that a run is a function of its settings and data in: everything but the clock."""
    found = {
        "checkpoints": {
            step: files.sha256(path / checkpoint.MODEL)
            for step, path in files.steps(folder / "checkpoints").items()
        }
    }
    for table in TABLES:
        if table != "timings":
            rows = pq.read_table(folder / f"{table}.parquet")
            found[table] = rows.drop([name for name in CLOCK if name in rows.column_names])
    return found


def manifest(run):
    return files.read_json(run.parent / files.MANIFEST)


def last_weights(folder):
    return checkpoint.load_model(folder / "checkpoints" / "step6").state_dict()


def rows(result, table):
    return result[table].to_pylist()


def refused(run, corpora):
    with pytest.raises(InputError) as caught:
        train(run, corpora)
    return str(caught.value)


# What a run writes.


def test_a_run_ends_with_checkpoints_records_and_a_manifest(make_run, corpora):
    run = make_run(training={"resume_every": 2})
    result = train(run, corpora)
    found = manifest(run)
    assert found["run"] == "languages/tiny/any/seed0"
    assert found["settings"] == files.read_json(run)
    assert found["domains"] == ["easy", "hard"]
    assert (found["steps"], found["tokens"], found["resumes"]) == (6, 6 * 6 * 8, 0)
    # Steps 2 and 4 only served to go on after an interruption.
    assert found["checkpoints"] == [0, 3, 6] == list(result["checkpoints"])
    assert found["weights_sha256"] == result["checkpoints"][6]
    net = checkpoint.load_model(run.parent / "checkpoints" / "step6")
    assert found["parameters"] == sum(p.numel() for p in net.parameters())
    assert found["wall_seconds"] > 0
    assert found["tokens_per_second"] == pytest.approx(found["tokens"] / found["wall_seconds"])
    assert set(found["files"]) == {
        *(f"{table}.parquet" for table in TABLES),
        *(f"checkpoints/step{n}/model.safetensors" for n in (0, 3, 6)),
    }
    assert list(found["inputs"]) == [
        os.path.relpath(corpora / domain / files.MANIFEST, run.parent)
        for domain in ("easy", "hard")
    ]
    assert not (run.parent / "lease").exists()


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


def test_the_pace_of_every_step_is_recorded(make_run, corpora):
    run = make_run()
    pretrain.pretrain(run, corpora, device="cpu", peak_flops=1e9)
    work = settings.parse(settings.Run, files.read_json(run), "run")
    net = checkpoint.load_model(run.parent / "checkpoints" / "step6")
    flops = throughput.training_flops(net, work.model, 8)
    for row in pq.read_table(run.parent / "steps.parquet").to_pylist():
        assert row["tokens_per_second"] == pytest.approx(48 / row["seconds"])
        expected = flops * row["tokens_per_second"] / 1e9
        assert row["model_flops_utilisation"] == pytest.approx(expected)
        assert 2**20 < row["memory_bytes"] < 2**36


def test_without_a_known_peak_there_is_no_utilisation(mixed):
    steps = pq.read_table(mixed / "steps.parquet")
    assert steps["model_flops_utilisation"].null_count == 6
    assert not (mixed / "live").exists()


def test_tensorboard_files_repeat_the_records_and_change_nothing(make_run, corpora, pike, piked):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = make_run(**pike)
    pretrain.pretrain(run, corpora, device="cpu", tensorboard=True)
    assert outcome(run.parent) == outcome(piked)
    assert manifest(run)["files"].keys() == manifest(piked / "run.json")["files"].keys()
    found = accumulator.EventAccumulator(str(run.parent / "tensorboard")).Reload()
    losses = [event.value for event in found.Scalars("steps/loss")]
    assert losses == pytest.approx([row["loss"] for row in rows(outcome(piked), "steps")])
    assert [event.step for event in found.Scalars("gradient_statistics/variance/easy")] == [0, 2, 4]
    assert "weights/weight/hard" in found.Tags()["scalars"]


def test_training_lowers_the_loss(make_run, corpora):
    training = {"steps": 60, "checkpoint_every": 60, "resume_every": 60}
    steps = rows(train(make_run(training=training), corpora), "steps")
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.5


def test_a_method_of_one_domain_a_step_leaves_the_others_loss_empty(make_run, corpora):
    result = train(make_run(rule="round-robin"), corpora)
    given = [(row["step"], row["domain"], row["loss"]) for row in rows(result, "domain_losses")]
    for step, domain, loss in given:
        assert (loss is None) == ((domain == "easy") == (step % 2 == 1))


# What a run is a function of.


def test_the_same_run_elsewhere_ends_with_the_same_bits(make_run, corpora, pike, piked):
    torch.manual_seed(99)
    assert train(make_run(**pike), corpora) == outcome(piked)


def test_another_seed_is_another_run(make_run, corpora, mixed):
    first, second = outcome(mixed), train(make_run(seed=1), corpora)
    assert first["checkpoints"][0] != second["checkpoints"][0]
    assert first["checkpoints"][6] != second["checkpoints"][6]


def test_statistics_do_not_change_the_rows_that_are_trained_on(make_run, corpora, pike, mixed):
    # Without a step size PiKE keeps equal weights: it must train on the rows of Mix.
    still = {**pike, "method": {**pike["method"], "zeta1": 0, "zeta2": 0}}
    measured, expected = train(make_run(**still), corpora), outcome(mixed)
    assert measured["checkpoints"] == expected["checkpoints"]
    assert measured["steps"] == expected["steps"]


def test_microbatches_change_the_last_bits_at_most(make_run, corpora, mixed):
    run = make_run(training={"microbatch_rows": 2})
    train(run, corpora)
    ours, theirs = last_weights(run.parent), last_weights(mixed)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


# Statistics.


def test_pike_measures_when_it_is_due_and_its_weights_move(piked):
    result = outcome(piked)
    statistics = rows(result, "gradient_statistics")
    assert [(row["step"], row["domain"]) for row in statistics] == [
        (step, domain) for step in (0, 2, 4) for domain in ("easy", "hard")
    ]
    assert all(row["rows"] == 3 for row in statistics[:2])
    assert all(row["variance"] > 0 for row in statistics)
    weights = [row["weight"] for row in rows(result, "weights") if row["domain"] == "easy"]
    assert weights[0] != 0.5
    assert weights[0] == weights[1]
    assert len(set(weights)) == 3
    assert any(row["count"] != 3 for row in rows(result, "weights"))


def test_recorded_weights_follow_from_recorded_statistics(piked):
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


def test_a_domain_with_a_small_share_is_measured_on_the_rows_that_are_asked_for(
    make_run, corpora, pike
):
    method = {**pike["method"], "prior": {"easy": 0.9, "hard": 0.1}}
    result = train(make_run(rule="pike", method=method), corpora)
    # 6 * 0.9 = 5.4 and 6 * 0.1 = 0.6: five rows and one, of which the latter is raised to three.
    assert [row["rows"] for row in rows(result, "gradient_statistics")[:2]] == [5, 3]


def test_statistics_of_the_training_batch_come_from_its_rows(make_run, corpora, pike, tmp_path):
    method = {**pike["method"], "batch": "training"}
    result = train(make_run(rule="pike", method=method), corpora)
    statistics, losses = rows(result, "gradient_statistics"), rows(result, "domain_losses")
    assert [row["loss"] for row in statistics[:2]] == pytest.approx(
        [row["loss"] for row in losses[:2]]
    )
    assert [(row["step"], row["domain"]) for row in statistics] == [
        (step, domain) for step in (0, 2, 4) for domain in ("easy", "hard")
    ]
    # They come out of the step's own pass, and count from the next step on.
    seconds = pq.read_table(tmp_path / "run" / "gradient_statistics.parquet")["seconds"]
    assert seconds.null_count == len(statistics)
    weights = [row["weight"] for row in rows(result, "weights") if row["domain"] == "easy"]
    assert [a != b for a, b in itertools.pairwise(weights)] == [True, False, True, False, True]


def test_measuring_in_the_pass_trains_as_measuring_beside_it_would(make_run, corpora, pike, mixed):
    still = {**pike["method"], "zeta1": 0, "zeta2": 0, "batch": "training"}
    run = make_run(rule="pike", method=still)
    train(run, corpora)
    ours, theirs = last_weights(run.parent), last_weights(mixed)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("batch", ["fresh", "training"])
def test_statistics_without_a_variance_are_refused(make_run, corpora, pike, batch):
    method = {**pike["method"], "batch": batch}
    run = make_run(rule="pike", method=method, training={"statistics_microbatch": 6})
    message = refused(run, corpora)
    assert "in micro-batches of 6 (training.statistics_microbatch)" in message
    assert "a variance needs two: lower the latter" in message


# The seams, with toy methods that no table knows.


@dataclasses.dataclass(frozen=True)
class Weighted(Mix):
    """Says in numbers what Mix leaves unsaid."""

    def loss_weights(self, state, signals):
        return signals.count_K / signals.batch_rows


@dataclasses.dataclass(frozen=True)
class Combined(Mix):
    """Combines the domains' gradients as Mix does."""

    def needs(self):
        return Needs(gramian=True)

    def combine(self, state, signals):
        assert signals.gram_KxK.shape == (2, 2)
        assert not signals.loss_K.isnan().any()
        return signals.count_K / signals.batch_rows


@dataclasses.dataclass(frozen=True)
class Watching(Mix):
    """Keeps what it is shown in its state."""

    def needs(self):
        return Needs(losses=True, statistics=StatisticsNeed(first=1, every=2, fresh=True, rows=4))

    def observe(self, state, signals):
        if signals.loss_K is not None:
            assert signals.statistics is None or signals.count_K is not None
            seen = state.get("seen", torch.empty((0, 2), dtype=torch.float64))
            state = {**state, "seen": torch.cat([seen, signals.loss_K[None]])}
        if signals.statistics is not None:
            rows_K = signals.statistics.rows_K
            state = {**state, "measured": state.get("measured", torch.zeros(2)) + rows_K}
        return state


def test_weights_of_the_losses_that_are_the_shares_give_mixs_bits(make_run, corpora, mixed):
    weighted = train_with(Weighted(), make_run(), corpora)
    assert {row["coefficient"] for row in weighted.pop("coefficients").to_pylist()} == {0.5}
    plain = outcome(mixed)
    assert plain.pop("coefficients").num_rows == 0
    assert weighted == plain


def test_a_combination_by_the_shares_gives_mixs_update(make_run, corpora, mixed):
    run = make_run()
    result, expected = train_with(Combined(), run, corpora), outcome(mixed)
    ours, theirs = last_weights(run.parent), last_weights(mixed)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)
    for ours, theirs in zip(rows(result, "steps"), rows(expected, "steps"), strict=True):
        assert ours["gradient_norm"] == pytest.approx(theirs["gradient_norm"], rel=1e-4)
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)


def test_doubled_weights_of_the_losses_double_the_gradient(make_run, corpora, mixed):
    @dataclasses.dataclass(frozen=True)
    class Doubled(Mix):
        def loss_weights(self, state, signals):
            return 2 * signals.count_K / signals.batch_rows

    once = rows(outcome(mixed), "steps")[0]
    twice = rows(train_with(Doubled(), make_run(), corpora), "steps")[0]
    assert twice["gradient_norm"] == pytest.approx(2 * once["gradient_norm"], rel=1e-5)
    # The recorded loss stays that of the batch.
    assert twice["loss"] == once["loss"]


def test_a_method_sees_what_it_asks_for_and_its_state_is_kept(make_run, corpora):
    run = make_run()
    result = train_with(Watching(), run, corpora)
    losses = [row["loss"] for row in rows(result, "domain_losses")]
    values = files.read_json(run)
    work = settings.parse(settings.Run, values, "run")
    with lease.held(run.parent) as held:
        given = inputs.read(work, Watching(), corpora, None, None)
        loop = pretrain._Training(work, Watching(), values, given, devices.pick("cpu"), held)
        path = run.parent / "checkpoints" / "step6"
        at = checkpoint.restore(path, loop.model, loop.optimizer, torch.device("cpu"))
    assert at.method["seen"].flatten().tolist() == losses
    # Statistics at steps 1, 3 and 5, of four rows each.
    assert at.method["measured"].tolist() == [12, 12]
    assert at.positions_K.tolist() == [18, 18]
    assert at.statistics_positions_K.tolist() == [12, 12]


SHORT = {
    "single": {"domain": "hard"},
    "fixed": {"weights_by_domain": {"easy": 1, "hard": 2}},
    "pike": PIKE,
    "balanced-pike": {**PIKE, "tau": 1.0},
    "conceptual-pike": {"L": 1.0, "eta": 2.0, "every": 2, "rows": 3},
    "ado": {"first": 46, "every": 4, "ignore": 1, "stride": 5, "window": 5},
    "odm": {"warmup": 2},
    "gradnorm": {"first": 1},
    "doremi": {"reference": "mix"},
    "skill-it": {"every": 2, "rows": 2},
    "aioli": {"every": 6, "slot": 1, "sweeps": 1, "rows": 2},
}
"""Settings with which a rule has acted before the end of a tiny run."""


@pytest.mark.parametrize("rule", METHODS)
def test_every_rule_trains(make_run, corpora, mixed, rule):
    steps = 50 if rule == "ado" else 8
    run = make_run(rule=rule, method=SHORT.get(rule, {}), training={"steps": steps})
    reference = mixed if rule == "doremi" else None
    pretrain.pretrain(run, corpora, reference=reference, device="cpu", threads=1)
    result = outcome(run.parent)
    counts = [row["count"] for row in rows(result, "weights")]
    assert sum(counts) == 6 * steps
    needs = registry.build(rule, SHORT.get(rule, {}), rule).needs()
    assert all(row["loss"] is not None for row in rows(result, "steps"))
    if needs != Needs():
        # It has acted: on what the batches hold, or on how their losses or gradients add up.
        moved = {row["weight"] for row in rows(result, "weights")} != {0.5}
        assert moved or rows(result, "coefficients") or needs.moments_per_domain


def test_systematic_rounding_serves_small_weights_over_the_steps(make_run, corpora):
    method = {"weights_by_domain": {"easy": 1, "hard": 15}}
    for rounding, rows_of_easy in (("largest-remainder", {0}), ("systematic", {2, 3, 4})):
        run = make_run(
            rounding, rule="fixed", method=method, training={"rounding": rounding, "steps": 8}
        )
        counts = [r["count"] for r in rows(train(run, corpora), "weights") if r["domain"] == "easy"]
        # 6 rows x 8 steps / 16 = 3, give or take the one that step 8 would even out.
        assert sum(counts) in rows_of_easy


# Beginning, going on, and beginning anew.


def test_a_finished_run_may_be_run_again(finished, corpora, piked):
    assert train(finished, corpora) == outcome(piked)
    assert manifest(finished)["resumes"] == 1


def test_changed_settings_in_the_same_folder_start_anew(finished, make_run, corpora):
    changed = {"training": {"peak_learning_rate": 0.02}}
    run = make_run("finished", **changed)
    assert run == finished
    assert train(run, corpora) == train(make_run("fresh", **changed), corpora)
    assert manifest(run)["resumes"] == 0


def test_other_text_in_the_same_place_starts_anew(finished, corpora, tmp_path):
    for domain, other in (("easy", "hard"), ("hard", "easy")):
        shutil.copytree(corpora / other, tmp_path / "corpora" / domain)
    train(finished, tmp_path / "corpora")
    assert manifest(finished)["resumes"] == 0


def test_a_run_that_begins_anew_is_not_complete_until_its_end(finished, make_run, corpora):
    run = make_run("finished", training={"peak_learning_rate": 1e30, "clip_norm": 1e30})
    assert "is not a finite number" in refused(run, corpora)
    assert not (finished.parent / files.MANIFEST).exists()


def damage(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_a_damaged_last_checkpoint_costs_time_but_no_bit(finished, corpora, piked):
    damage(finished.parent / "checkpoints" / "step6" / checkpoint.MODEL)
    assert train(finished, corpora) == outcome(piked)


def test_a_deleted_checkpoint_is_made_again(finished, corpora, piked):
    shutil.rmtree(finished.parent / "checkpoints" / "step3")
    assert train(finished, corpora) == outcome(piked)


def test_a_run_goes_on_after_a_kill_behind_a_deleted_checkpoint(
    finished, corpora, piked, monkeypatch
):
    """The checkpoint of step 6 is made again too: its records went with those of step 3."""
    shutil.rmtree(finished.parent / "checkpoints" / "step3")
    write = checkpoint.write

    def killed(folder, taken):
        write(folder, taken)
        raise InterruptedError

    monkeypatch.setattr(checkpoint, "write", killed)
    with pytest.raises(InterruptedError):
        train(finished, corpora)
    monkeypatch.undo()
    assert list(files.steps(finished.parent / "checkpoints")) == [0, 3]
    assert train(finished, corpora) == outcome(piked)
    assert manifest(finished)["resumes"] == 2


@pytest.mark.parametrize("broken", [b"", b"{", b"{}"])
def test_checkpoints_that_are_all_broken_start_anew(finished, corpora, piked, broken):
    for path in files.steps(finished.parent / "checkpoints").values():
        (path / files.MANIFEST).write_bytes(broken)
    assert train(finished, corpora) == outcome(piked)
    assert manifest(finished)["resumes"] == 0


def test_a_damaged_checkpoint_is_not_vouched_for(finished, corpora, piked):
    """Going on reads the last one alone."""
    folder = finished.parent / "checkpoints" / "step3"
    damage(folder / checkpoint.MODEL)
    message = refused(finished, corpora)
    assert "model.safetensors is damaged: " in message
    assert f"delete {folder} and train again" in message
    assert not (finished.parent / files.MANIFEST).exists()
    # As the message says.
    shutil.rmtree(folder)
    assert train(finished, corpora) == outcome(piked)
    sums = {n: s["sha256"] for n, s in manifest(finished)["files"].items() if "checkpoints" in n}
    assert sums == {
        f"checkpoints/step{n}/model.safetensors": s
        for n, s in outcome(piked)["checkpoints"].items()
    }


@pytest.mark.parametrize("lost", ["parts", "parts/step3"])
def test_lost_records_are_not_papered_over(finished, corpora, piked, lost):
    shutil.rmtree(finished.parent / lost)
    assert "not hold all records up to step 6: delete " in refused(finished, corpora)
    # As the message says.
    shutil.rmtree(finished.parent / "checkpoints")
    assert train(finished, corpora) == outcome(piked)


def test_what_a_killed_process_left_half_written_is_cleared_away(finished, corpora, piked):
    folder = finished.parent
    for place in (".", "checkpoints", "parts"):
        (folder / place / ".step4.17.part").mkdir()
        (folder / place / ".step4.17.part" / "half").touch()
    # A checkpoint that only served to go on, from a process killed before it deleted it.
    shutil.copytree(folder / "checkpoints" / "step3", folder / "checkpoints" / "step5")
    assert train(finished, corpora) == outcome(piked)
    assert not list(folder.rglob("*.part"))
    assert manifest(finished)["checkpoints"] == [0, 3, 6]


def test_the_newest_few_checkpoints_stay_while_a_run_goes_on(make_run, corpora):
    run = make_run(
        training={"resume_every": 1, "resume_keep": 2, "clip_norm": 1e30, "steps": 7}
        | {"peak_learning_rate": 1e30, "warmup_steps": 6, "initial_learning_rate": 0.01}
    )
    assert "is not a finite number" in refused(run, corpora)
    kept = list(files.steps(run.parent / "checkpoints"))
    newest = kept[-1]
    assert kept == sorted({*range(0, newest + 1, 3), newest - 1, newest})
    assert not (run.parent / "lease").exists()


def test_a_later_versions_checkpoints_are_never_deleted(finished, corpora):
    path = finished.parent / "checkpoints" / "step6" / files.MANIFEST
    files.write_json(path, {**files.read_json(path), "format": checkpoint.FORMAT + 1})
    assert "use the version that wrote it" in refused(finished, corpora)
    assert path.exists()


def test_a_run_says_why_it_starts_anew(finished, make_run, corpora, caplog):
    run = make_run("finished", seed=3)
    with caplog.at_level("INFO", "pike"):
        train(run, corpora)
    assert "checkpoints: of another run: run.seed was 0, is 3" in caplog.text


# The user's mistakes.


def test_a_loss_that_is_no_number_stops_the_run(make_run, corpora, capsys):
    run = make_run(training={"peak_learning_rate": 1e30, "clip_norm": 1e30, "steps": 12})
    assert main(["pretrain", str(run), "--corpora", str(corpora), "--device", "cpu"]) == 2
    message = capsys.readouterr().err
    assert "the loss of easy, hard is not a finite number at step 2" in message
    assert "lower training.peak_learning_rate or lengthen training.warmup_steps" in message
    assert "Traceback" not in message
    for path in files.steps(run.parent / "checkpoints").values():
        weights = checkpoint.load_model(path).state_dict().values()
        assert all(weight.isfinite().all() for weight in weights)


def test_a_second_process_is_told_who_trains(make_run, corpora, capsys):
    run = make_run()
    with lease.held(run.parent):
        assert main(["pretrain", str(run), "--corpora", str(corpora), "--device", "cpu"]) == 2
    assert f"is being written by process {os.getpid()} on " in capsys.readouterr().err


def test_domains_with_too_little_text_are_all_named(make_run, corpora):
    lines = refused(make_run(training={"rows": 10_000}), corpora).splitlines()
    assert len(lines) == 2
    for line, domain in zip(lines, ("easy", "hard"), strict=True):
        assert line.startswith(f"domain {domain!r} has ")
        assert "fewer than one batch of 10000 (scenarios.languages): give its source more" in line


def test_a_missing_corpus_is_named(make_run, corpora):
    message = refused(make_run(domains=["easy", "missing"]), corpora)
    assert f"{corpora / 'missing'} holds no finished corpus" in message
    assert "pack it first" in message


@pytest.mark.parametrize("harm", ["flip", "cut"])
def test_a_damaged_shard_is_named_before_any_step(make_run, corpora, tmp_path, harm):
    shutil.copytree(corpora, tmp_path / "corpora")
    shard = tmp_path / "corpora" / "hard" / "train-00000.bin"
    if harm == "flip":
        damage(shard)
    else:
        shard.write_bytes(shard.read_bytes()[:-2])
    run = make_run()
    message = refused(run, tmp_path / "corpora")
    assert str(shard) in message
    assert "pack it anew" in message
    assert not (run.parent / "checkpoints").exists()


def test_corpora_of_different_tokenizers_are_refused(make_run, corpora, tmp_path):
    shutil.copytree(corpora, tmp_path / "corpora")
    path = tmp_path / "corpora" / "hard" / files.MANIFEST
    changed = files.read_json(path)
    changed["tokenizer"]["sha256"] = "0" * 64
    changed["inputs"] = {
        name: "0" * 64 if name.endswith(".model") else recorded
        for name, recorded in changed["inputs"].items()
    }
    files.write_json(path, changed)
    assert "different tokenizers" in refused(make_run(), tmp_path / "corpora")


def test_wrong_settings_are_named_at_once_and_nothing_is_written(make_run, corpora):
    run = make_run(training={"rows": 0, "stepz": 3}, model={"layers": "two"})
    message = refused(run, corpora)
    assert f"{run}.training: 'stepz' is unknown: did you mean 'steps'?" in message
    assert f"{run}.model.layers: 'two' is not a whole number" in message
    assert [path.name for path in run.parent.iterdir()] == ["run.json"]


def test_settings_that_do_not_fit_the_rule_are_named(make_run, corpora):
    message = refused(make_run(rule="pike", method={"zeta1": 1, "tau": 2}), corpora)
    assert "run.json: method: 'tau' is unknown" in message
    assert "run.json: method: zeta2 is missing" in message
    assert "rule: 'pyke' is unknown" in refused(make_run(rule="pyke"), corpora)


def test_a_method_that_names_no_domain_of_the_run_is_refused(make_run, corpora):
    assert "'middling' is unknown" in refused(
        make_run(rule="single", method={"domain": "middling"}), corpora
    )


def test_a_device_that_is_not_there_is_refused(make_run, corpora):
    with pytest.raises(InputError, match="device 'tpu' is unknown: choose one of auto, cpu, cuda"):
        pretrain.pretrain(make_run(), corpora, device="tpu")


# Harder troubles, with real processes and real disks.

LONG = {"steps": 30, "checkpoint_every": 10, "resume_every": 2, "warmup_steps": 5}


def tell(process):
    process.stdin.write("\n")
    process.stdin.flush()


def said(process):
    return process.stdout.readline().strip()


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["pike", "random"])
def test_a_run_killed_at_random_moments_ends_with_the_same_bits(
    make_run, corpora, pike, pipeline_command, run_pipeline, rule
):
    chosen = pike if rule == "pike" else {"rule": rule}
    unbroken = make_run("unbroken", training=LONG, **chosen)
    expected = train(unbroken, corpora)
    run = make_run("broken", training=LONG, **chosen)
    arguments = ["pretrain", run, "--corpora", corpora, "--device", "cpu", "--threads", "1"]
    command = pipeline_command(*arguments)
    command["args"] = [command["args"][0], "-c", LAUNCHER, *command["args"][3:]]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    moments, codes = random.Random(rule), []
    with subprocess.Popen(**command, **pipes, text=True) as launcher:
        assert said(launcher) == "ready"
        while len(codes) < 12 and 0 not in codes:
            tell(launcher)
            time.sleep(moments.uniform(0.02, 0.5))
            tell(launcher)
            codes.append(int(said(launcher)))
    assert codes.count(-signal.SIGKILL) >= 3
    assert run_pipeline(*arguments).returncode == 0
    assert outcome(run.parent) == expected
    assert manifest(run)["weights_sha256"] == manifest(unbroken)["weights_sha256"]
    assert manifest(run)["checkpoints"] == [0, 10, 20, 30]
    # A process killed while it asks for the lease leaves its claim, which claims nothing.
    left = {path.name for path in run.parent.iterdir() if not path.name.startswith(".lease.")}
    assert left == {path.name for path in unbroken.parent.iterdir()}


def started(run):
    return (run.parent / "starts.json").exists()


def train_in_background(command, run):
    """Starts the command and waits until the run has begun."""
    process = subprocess.Popen(**command, stderr=subprocess.DEVNULL)
    while not started(run):
        assert process.poll() is None
        time.sleep(0.02)
    return process


@pytest.mark.slow
def test_changed_settings_of_a_killed_run_start_anew(make_run, corpora, pipeline_command):
    run = make_run("run", training={**LONG, "steps": 100_000})
    command = pipeline_command("pretrain", run, "--corpora", corpora, "--device", "cpu")
    process = train_in_background(command, run)
    time.sleep(0.1)
    process.kill()
    process.wait()
    changed = {**LONG, "peak_learning_rate": 0.02}
    result = train(make_run("run", training=changed), corpora)
    assert result == train(make_run("fresh", training=changed), corpora)
    assert manifest(run)["resumes"] == 0


@pytest.mark.slow
def test_of_two_processes_on_one_run_the_second_leaves_with_code_2(
    make_run, corpora, pipeline_command, run_pipeline
):
    run = make_run(training={**LONG, "steps": 100_000})
    arguments = ["pretrain", run, "--corpora", corpora, "--device", "cpu"]
    first = train_in_background(pipeline_command(*arguments), run)
    try:
        second = run_pipeline(*arguments)
        assert second.returncode == 2
        assert f"is being written by process {first.pid} on " in second.stderr
        assert "Traceback" not in second.stderr
        assert first.poll() is None
    finally:
        first.kill()
        first.wait()


@pytest.mark.slow
def test_a_full_disk_stops_the_run_and_freed_space_lets_it_go_on(
    corpora, small_disk, capsys, piked
):
    """Four KiB more are free at each start, so that the disk is full at every kind of write."""
    disk = small_disk(1024)
    expected = outcome(piked)
    run = disk / "run" / "run.json"
    run.parent.mkdir()
    shutil.copy(piked / "run.json", run)
    filler = disk / "filler"
    with filler.open("wb") as file:
        while free(disk):
            file.write(b"0" * min(4096, free(disk)))
            file.flush()
    messages, code = [], 2
    while code == 2:
        with filler.open("r+b") as file:
            file.truncate(filler.stat().st_size - 4096)
        code = main(["pretrain", str(run), "--corpora", str(corpora), "--device", "cpu"])
        messages.append(capsys.readouterr().err)
    assert code == 0
    assert len(messages) > 20
    for message in messages[:-1]:
        assert "No space left on device" in message
        assert "free some space" in message
        assert "Traceback" not in message
    kinds = ("checkpoint", "records", "cannot be written")
    assert all(any(kind in message for message in messages) for kind in kinds)
    assert outcome(run.parent) == expected
    assert not list(Path(disk).rglob("*.part"))


def free(folder):
    return shutil.disk_usage(folder).free
