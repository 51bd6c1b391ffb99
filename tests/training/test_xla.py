"""XLA devices: the numbers of the CPU, from programs that are compiled once.

`make test-tpu` runs it in an environment of its own, on PJRT's CPU; where there is a TPU,
PJRT_DEVICE=TPU runs the same.
"""

import importlib.util
import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
import torch
from chip_runs import Compilations
from faults import NUMBERS, cut_off
from recipes import recipe
from trained import apart, loop_of

from pipeline import settings
from pipeline.evaluation import gradient_similarities
from pipeline.evaluation.evaluate import evaluate_chosen_checkpoints
from pipeline.model import adamw, checkpoint, learning_rate
from pipeline.model.pipeline_passes import PipelinePasses
from pipeline.model.transformer import initial_model
from pipeline.runtime import atomic_files, devices, pick_device
from pipeline.training import train as pretrain

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(
        importlib.util.find_spec("torch_xla") is None, reason="make setup-tpu, make test-tpu"
    ),
]
os.environ.setdefault("PJRT_DEVICE", "CPU")

STEPS = 50
# Six rows in passes of four: the second is filled up. So are those of one domain's statistics.
TRAINING = {
    "steps": STEPS,
    "checkpoint_every": 25,
    "resume_every": 25,
    "microbatch_rows": 4,
    "statistics_microbatch": 2,
    "rows": 10,
    "rounding": "systematic",
}
PIKE = {"zeta1": 1.0, "zeta2": 0.2, "every": 3, "first": 0, "rows": 3}
METHODS = {
    "mix": {"rule": "mix"},
    "pike": {"rule": "pike", "method": PIKE},
    "pike-of-the-batch": {"rule": "pike", "method": {**PIKE, "batch": "training"}},
    "famo": {"rule": "famo", "method": {"rate": 0.5}},
    "pcgrad": {"rule": "pcgrad"},
    "adatask": {"rule": "adatask"},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, write_run, corpora):
    """Trains a run of a method on a device, once; its folder and how often it compiled."""
    done = {}

    def train(name, device, **training):
        key = (name, device, *training.items())
        if key not in done:
            folder = tmp_path_factory.mktemp(f"{name}-{device}")
            run = write_run(folder, training={**TRAINING, **training}, **METHODS[name])
            done[key] = folder, listened_to(run, corpora, device)
        return done[key]

    return train


def listened_to(run, corpora, device):
    with loop_of(run, corpora, device=device) as loop:
        heard = Compilations()
        heard.listen(loop.records)
        loop.run()
    return heard


def differences(folder, expected):
    return {
        f"{table}.{column}": apart(folder, expected, table, column)
        for table, columns in NUMBERS.items()
        for column in columns
    }


@pytest.mark.parametrize("name", METHODS)
def test_fifty_steps_have_the_losses_of_the_cpu(trained, record_property, name):
    (ours, _), (theirs, _) = (trained(name, device) for device in ("xla", "cpu"))
    found = differences(ours, theirs)
    record_property("largest relative differences", dict(found))
    assert found.pop("steps.loss") <= 1e-4
    assert found.pop("domain_losses.loss") <= 1e-4
    assert found.pop("weights.count") == 0
    assert max(found.values()) <= 1e-2
    trained_on = atomic_files.read_json(ours / atomic_files.MANIFEST)["device"]
    assert trained_on == devices.describe_device(pick_device.claim_device("xla"))


@pytest.mark.parametrize("name", METHODS)
def test_nothing_is_compiled_any_more_once_every_kind_of_step_was_there(
    trained, record_property, name
):
    _, heard = trained(name, "xla")
    # Six steps: two firing ones, and each of the second kind that meets what the first made.
    warm, later = heard.by_step[5], heard.by_step[6:]
    counts = {tuple(c) for step, c in heard.counts_by_step.items() if step > 5}
    record_property("programs compiled up to each step", heard.by_step)
    if "pike" in name:
        assert len(counts) >= 3
    assert set(later) == {warm}


@pytest.mark.parametrize(("began", "goes_on"), [("xla", "cpu"), ("cpu", "xla")])
def test_what_one_device_began_the_other_ends(trained, tmp_path, corpora, began, goes_on):
    (begun, _), (whole, _) = trained("pike", began), trained("pike", goes_on)
    run = cut_off(begun, tmp_path / "run", STEPS)
    pretrain.pretrain(run, corpora, device=goes_on)
    assert atomic_files.read_json(run.parent / "starts.json") == [0, 25]
    assert apart(run.parent, whole, "steps", "loss") <= 1e-4
    ours, theirs = (
        checkpoint.load_model(place / "checkpoints" / f"step{STEPS}").state_dict()
        for place in (run.parent, whole)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-3)


def test_bfloat16_trains_like_the_cpus(trained):
    (ours, heard), (theirs, _) = (
        trained("mix", device, precision="bfloat16") for device in ("xla", "cpu")
    )
    (exact, _) = trained("mix", "cpu")
    assert 0 < apart(ours, exact, "steps", "loss") <= 2e-2
    assert apart(ours, theirs, "steps", "loss") <= 2e-2
    assert len(set(heard.by_step[3:])) == 1


def test_recomputed_blocks_train_like_the_others(trained):
    (ours, _), (theirs, _) = (
        trained("mix", "xla", activation_checkpointing=True, steps=5),
        trained("mix", "cpu", steps=5),
    )
    assert apart(ours, theirs, "steps", "loss") <= 1e-4


def test_a_probe_measures_the_same(trained, tmp_path, corpora):
    (folder, _) = trained("mix", "cpu")
    asked = tmp_path / "probe.json"
    atomic_files.write_json(asked, {"rows": 5, "microbatch": 2, "checkpoints": "last"})
    found = []
    for device in ("xla", "cpu"):
        gradient_similarities.probe_gradients(asked, folder, corpora, device=device)
        table = pq.read_table(folder / "probes" / f"step{STEPS}.parquet")
        found.append(table.to_pylist()[0])
    for column in ("cosine", "ratio", "cosine_corrected"):
        assert found[0][column] == pytest.approx(found[1][column], rel=1e-3)


def test_an_evaluation_measures_the_same_and_compiles_for_each_shape_once(
    trained, tmp_path, corpora
):
    (folder, _) = trained("mix", "cpu")
    asked = tmp_path / "evaluation.json"
    choice = {"items": 20, "context": 5, "candidate": 4}
    # Windows of 8 tokens: 32 rows a batch, the second with 13; questions have one length, 64.
    values = {"rows": 45, "batch_tokens": 256, "checkpoints": "all", "choice": choice}
    atomic_files.write_json(asked, values)
    tokenizer = corpora.parent / "symbols.model"
    tables, compiled = [], []
    for device in ("cpu", "xla", "xla"):
        evaluate_chosen_checkpoints(asked, folder, corpora, tokenizer, device=device)
        out = folder / "evaluations" / f"step{STEPS}"
        names = ("documents", "choices", "perplexities", "accuracies")
        tables.append({name: pq.read_table(out / f"{name}.parquet").to_pylist() for name in names})
        compiled.append(Compilations().metrics.counter_value("UncachedCompile"))
    cpu, xla, again = tables
    assert xla == again
    assert compiled[2] == compiled[1]
    close = pytest.approx([row["nll"] for row in cpu["documents"]], rel=1e-5)
    assert [row["nll"] for row in xla["documents"]] == close
    for ours, theirs in zip(xla["choices"], cpu["choices"], strict=True):
        for column in ("sum_log_likelihood", "unconditional"):
            assert ours[column] == pytest.approx(theirs[column], rel=1e-5)
    assert [row["value"] for row in xla["accuracies"]] == [r["value"] for r in cpu["accuracies"]]


# How rows are dealt.


def test_what_is_left_of_a_domain_is_filled_up_with_rows_that_weigh_nothing():
    rows = torch.arange(15).view(5, 3)
    shape = settings.Model(layers=1, width=4, heads=1, head_width=2)
    passes = PipelinePasses(initial_model(shape, 16, 0).to(pick_device.claim_device("xla")))
    dealt = list(passes.pieces_of_this_process(rows, torch.full((5,), 0.5), 4))
    assert [p.rows.shape for p in dealt] == [(4, 3), (4, 3)]
    assert [p.size for p in dealt] == [4, 1]
    assert dealt[1].rows.cpu()[:, 0].tolist() == [12] * 4
    assert dealt[1].weight_B.cpu().tolist() == [0.5, 0, 0, 0]


# Moments of each domain.


def test_one_program_moves_the_parameters_whichever_domains_had_rows():
    found, compiled = {}, []
    for name in ("cpu", "xla"):
        device = pick_device.claim_device(name)
        model = initial_model(settings.Model(layers=1, width=4, heads=1, head_width=2), 16, 0)
        optimizer = adamw.build_per_domain_adamw(model.to(device), recipe(), 3)
        for step, domains in enumerate([(0,), (1, 2), (0, 1, 2), (2,), (0, 2), (1,), (0, 1)] * 2):
            learning_rate.set_learning_rate(optimizer, 0.01 / (1 + step))
            for k in domains:
                for p in model.parameters():
                    p.grad = (p.detach() - k).sin()
                optimizer.update_domain_moments(k, 1 / len(domains))
                optimizer.zero_grad()
                devices.mark_step(device)
            optimizer.step()
            devices.mark_step(device)
            if name == "xla":
                compiled.append(Compilations().metrics.counter_value("UncachedCompile"))
        found[name] = {key: value.cpu() for key, value in model.state_dict().items()}
    torch.testing.assert_close(found["xla"], found["cpu"], rtol=1e-6, atol=1e-6)
    # Moments of all three are there after two steps; three sets of domains come first after four.
    assert len(set(compiled[3:])) == 1, compiled


# What goes wrong.


def test_a_machine_without_a_tpu_is_told_what_to_do(make_run, corpora):
    run = make_run()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pipeline", "pretrain", str(run)),
            *("--corpora", str(corpora), "--device", "xla"),
        ],
        env={**os.environ, "PJRT_DEVICE": "TPU"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 2, done.stderr
    assert "this machine has no TPU" in done.stderr
    assert "PJRT_DEVICE=CPU" in done.stderr
