"""What is promised of CUDA, on a GPU: these tests are skipped where there is none."""

import copy
import os

import numpy as np
import pytest
import torch
from recipes import recipe

from pike_mixing import method_registry
from pike_mixing.torch import gradient_statistics
from pike_mixing.torch.step_gradient import StepGradient
from pike_mixing.torch.step_rows import DealtRows
from pipeline import settings
from pipeline.model import checkpoint, transformer
from pipeline.model.pipeline_passes import PipelinePasses, row_losses
from pipeline.runtime import atomic_files
from pipeline.training import train

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU"),
]

# Before the first product of the process, as `pike pretrain` sets it.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

SHAPE = settings.Model(layers=2, width=64, heads=2, head_width=32)
VOCABULARY = 512
STATISTICS_OF_THE_BATCH = {"zeta1": 0.1, "zeta2": 0.01, "every": 1, "first": 0, "rows": 2} | {
    "batch": "training"
}
STATISTICS = ("squared_norm_K", "squared_norm_unbiased_K", "variance_K", "loss_K")


@pytest.fixture
def free():
    """Switches torch's determinism off again."""
    yield
    torch.use_deterministic_algorithms(False)


def net(device, **how):
    return (
        transformer.initial_model(SHAPE, VOCABULARY, 0)
        .to(device)
        .configure(recipe(rows=12, length=32, **how))
    )


def batch(device, counts=(4, 8)):
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(VOCABULARY, (sum(counts), 33), generator=generator)
    return tokens.to(device), np.array(counts)


def step(device, rule="mix", **how):
    """What a method saw in one step, and the gradient on the CPU."""
    own = net(device, **how)
    passes, (tokens, count_K) = PipelinePasses(own), batch(device)
    passing = StepGradient(own, passes, micro_batch_rows=12, statistics_micro_batch_rows=1)
    method = method_registry.build_method(
        rule, STATISTICS_OF_THE_BATCH if rule == "pike" else {}, "test"
    )
    rows = DealtRows(passes, tokens, count_K, 12)
    left = passing.compute(method, method.init(("one", "two"), 0), 0, rows)
    return left.signals, torch.cat([p.grad.flatten().cpu() for p in own.parameters()])


def test_a_step_is_that_of_a_cpu():
    (seen, gradient), (expected, expected_gradient) = step("cuda"), step("cpu")
    torch.testing.assert_close(seen.loss_K, expected.loss_K, rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-3, atol=1e-6)


def test_a_step_in_bfloat16_is_near_that_in_float32():
    (seen, g), (expected, expected_g) = step("cuda", precision="bfloat16"), step("cuda")
    assert g.dtype == torch.float32
    torch.testing.assert_close(seen.loss_K, expected.loss_K, rtol=0.01, atol=0)
    assert not torch.equal(g, expected_g)
    assert (g - expected_g).norm() < 0.05 * expected_g.norm()


def test_statistics_out_of_the_pass_are_those_of_single_rows_on_a_cpu():
    seen, gradient = step("cuda", "pike")
    tokens, count_K = batch("cpu")
    reference = gradient_statistics(net("cpu"), row_losses, tokens.split(count_K.tolist()))
    for name in STATISTICS:
        found = getattr(seen.statistics, name)
        torch.testing.assert_close(found, getattr(reference, name), rtol=1e-3, atol=1e-6)
    # What is left for the optimizer is an ordinary step's.
    _, ordinary = step("cuda")
    torch.testing.assert_close(gradient, ordinary, rtol=1e-3, atol=1e-6)


def test_the_gramian_is_that_of_a_cpu():
    found, expected = (step(device, "pcgrad")[0].gram_KxK for device in ("cuda", "cpu"))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_two_runs_have_the_same_bits(make_run, corpora, pike, free, precision):
    training = {"deterministic": True, "precision": precision}
    pike["method"]["batch"] = "training"
    sums = []
    for name in ("one", "two"):
        run = make_run(name, training=training, **copy.deepcopy(pike))
        train.pretrain(run, corpora, device="cuda")
        sums.append(atomic_files.sha256(run.parent / "checkpoints" / "step6" / checkpoint.MODEL))
    assert sums[0] == sums[1]


def test_a_run_that_goes_on_ends_with_the_same_bits_on_a_gpu(make_run, corpora, pike, free):
    run = make_run(training={"deterministic": True}, **pike)
    train.pretrain(run, corpora, device="cuda")
    last = run.parent / "checkpoints" / "step6"
    whole = atomic_files.sha256(last / checkpoint.MODEL)
    atomic_files.remove_path(last)
    train.pretrain(run, corpora, device="cuda")
    assert atomic_files.sha256(last / checkpoint.MODEL) == whole
