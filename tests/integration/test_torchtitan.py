"""torchtitan's own Trainer, on the CPU: the rows and weights of a plain loop."""

from pathlib import Path

import pytest
import torch
from ranks import torchrun

pytest.importorskip("torchtitan", reason="make setup EXTRAS=torchtitan")
pytest.importorskip("triton", reason="torchtitan's models import it")

HERE = Path(__file__).parent
OPTIONS = {
    "--model.name": "tiny",
    "--model.flavor": "tiny",
    "--training.max_norm": "1000",
    "--debug.seed": "1",
    "--training.steps": "14",
    "--training.seq_len": "16",
    "--training.local_batch_size": "2",
    "--training.global_batch_size": "8",
    "--training.mixed_precision_param": "float32",
    "--lr_scheduler.warmup_steps": "1",
    "--lr_scheduler.total_steps": "1000000",
    "--optimizer.lr": "0.001",
    # At its 1e-8 an error of rounding counts as a gradient where there is hardly one.
    "--optimizer.eps": "1e-5",
    "--optimizer.implementation": "for-loop",
    "--activation_checkpoint.mode": "none",
}


def started(script, folder, processes, changed=(), **environment):
    options = [word for pair in (OPTIONS | dict(changed)).items() for word in pair]
    options += ["--job.dump_folder", folder / "job", "--checkpoint.no-last_save_model_only"]
    return torchrun(processes, HERE / "titan_on_cpu.py", script, *options, **environment)


@pytest.fixture(scope="module", params=[1, 2])
def trained(request, tmp_path_factory):
    """What came of one process, and of two with the model in shards; 4 micro-batches, or 2."""
    folder = tmp_path_factory.mktemp("titan")
    code, said = started(HERE / "titan_job.py", folder, request.param, TITAN_OUT=str(folder))
    assert code == 0, said[-3000:]
    return torch.load(folder / f"{request.param}.pt")


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["pike", "famo", "ado"])
def test_a_rule_chooses_and_trains_as_in_a_plain_loop(trained, rule):
    result, plain = trained[rule], trained[f"plain {rule}"]
    assert [row[2:] for row in result["seen"]] == [row[2:] for row in plain["seen"]]
    # ADO's fits of single losses are the least sure.
    for what, error in {"seen": 5e-3, "norms": 1e-3}.items():
        pair = (torch.tensor(one[what], dtype=torch.float64) for one in (result, plain))
        torch.testing.assert_close(*pair, rtol=error, atol=0)
    # FAMO weighs losses alone.
    assert (len({tuple(row) for row in plain["seen"]}) > 1) == (rule != "famo")
    for name, tensor in result["last"].items():
        torch.testing.assert_close(tensor, plain["last"][name], rtol=0, atol=1e-6, msg=name)
    moved = (result["last"]["output.weight"] - result["first"]["output.weight"]).abs().max()
    assert moved > 0.002


@pytest.mark.slow
def test_the_option_delivered_counts_tokens_of_all_processes(trained):
    # 70 steps of 8 rows: 16 labels each, of `alone` a quarter.
    expected = {"rows": [280, 280], "tokens": [280 * 16, 280 * 4]}
    assert trained["delivered"] == expected | {"kinds": ["documents-not-tokens"]}


@pytest.mark.slow
def test_a_stopped_training_goes_on_as_if_unbroken(trained):
    whole, first, rest = trained["pike"], trained["pike-7"], trained["pike-14"]
    assert first["seen"] + rest["seen"] == whole["seen"]
    for name, tensor in whole["last"].items():
        assert torch.equal(rest["last"][name], tensor), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--parallelism.data_parallel_replicate_degree", "set data_parallel_shard_degree instead"),
        ("--parallelism.tensor_parallel_degree", "tensor_parallel_degree=2: processes share rows"),
    ],
)
def test_a_parallelism_that_hides_rows_or_gradients_is_refused(tmp_path, option, said):
    changed = {option: "2", "--training.steps": "2"}
    script = HERE.parents[1] / "examples" / "trainers" / "torchtitan_train.py"
    code, text = started(script, tmp_path, 2, changed)
    assert code != 0
    assert said in text
