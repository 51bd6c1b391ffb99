"""How the model computes is a setting: numbers stay, within what each setting promises."""

import shutil

import pytest
import torch
from recipes import recipe

from pike_mixing.torch import gradient_statistics
from pipeline import settings
from pipeline.model import checkpoint
from pipeline.model.pipeline_passes import row_losses
from pipeline.model.transformer import initial_model, token_losses, weighted_sum_and_row_losses
from pipeline.runtime import atomic_files, devices
from pipeline.training import train

SHAPE = settings.Model(layers=2, width=32, heads=2, head_width=16)


def arranged(shape=SHAPE, **how):
    return initial_model(shape, 48, 0).configure(recipe(**how))


def rows(count):
    return torch.randint(48, (count, 13), generator=torch.Generator().manual_seed(1))


def gradient(net, tokens):
    net.zero_grad()
    total, loss_B = weighted_sum_and_row_losses(
        net, tokens, torch.full((len(tokens),), 1 / len(tokens))
    )
    total.backward()
    return loss_B, torch.cat([p.grad.flatten() for p in net.parameters()])


def test_blocks_are_computed_again_in_the_backward_pass():
    net = arranged(activation_checkpointing=True)
    passes = []
    net.blocks[0].register_forward_pre_hook(lambda *_: passes.append(torch.is_grad_enabled()))
    gradient(net, rows(2))
    assert len(passes) == 2
    with torch.no_grad():
        token_losses(net, rows(2))
    assert len(passes) == 3


def test_bfloat16_keeps_the_loss_to_a_hundredth_and_the_gradient_to_a_twentieth():
    tokens = rows(4)
    net = arranged(precision="bfloat16")
    assert net.hidden_states(tokens).dtype == torch.float32
    (loss_B, g), (expected_B, expected) = gradient(net, tokens), gradient(arranged(), tokens)
    assert loss_B.dtype == g.dtype == torch.float32
    assert not torch.equal(loss_B, expected_B)
    torch.testing.assert_close(loss_B, expected_B, rtol=0.01, atol=0)
    assert (g - expected).norm() < 0.05 * expected.norm()
    # With and without gradient, a token's loss is computed alike.
    with torch.no_grad():
        torch.testing.assert_close(token_losses(net, tokens).mean(dim=1), loss_B, rtol=1e-4, atol=0)


def test_statistics_of_bfloat16_passes_are_added_up_in_float32():
    def measured(precision, micro_batch_rows):
        return gradient_statistics(
            arranged(precision=precision),
            row_losses,
            [rows(8)[:5], rows(8)[5:]],
            micro_batch_rows=micro_batch_rows,
        )

    ours = measured("bfloat16", 1)
    plain = measured("float32", 1)
    for name in ("squared_norm_K", "variance_K", "loss_K"):
        torch.testing.assert_close(getattr(ours, name), getattr(plain, name), rtol=0.05, atol=0)
    # Micro-batches differ in how their passes round, not in how they are added up.
    by_two = measured("bfloat16", 2)
    torch.testing.assert_close(by_two.squared_norm_K, ours.squared_norm_K, rtol=0.02, atol=0)


@pytest.mark.slow
def test_a_run_in_bfloat16_that_goes_on_ends_with_the_same_bits(make_run, corpora, pike):
    method = {**pike["method"], "batch": "training"}
    run = make_run(rule="pike", method=method, training={"precision": "bfloat16"})
    assert_resumes(run, corpora)


def assert_resumes(run, corpora):
    """Trains, forgets the last checkpoint, goes on; returns the run's folder."""
    train.pretrain(run, corpora, device="cpu", threads=1)
    last = run.parent / "checkpoints" / "step6"
    whole = atomic_files.sha256(last / checkpoint.MODEL)
    shutil.rmtree(last)
    train.pretrain(run, corpora, device="cpu", threads=1)
    assert atomic_files.read_json(run.parent / atomic_files.MANIFEST)["resumes"] == 1
    assert atomic_files.sha256(last / checkpoint.MODEL) == whole
    return run.parent


def test_compilations_are_kept_where_the_user_says(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    devices.use_torch_compile_cache()
    assert devices.os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "pike" / "compiled")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "elsewhere")
    devices.use_torch_compile_cache()
    assert devices.os.environ["TORCHINDUCTOR_CACHE_DIR"] == "elsewhere"


def test_a_gpu_is_made_deterministic_and_a_cpu_left_alone(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    devices.make_deterministic(torch.device("cpu"))
    assert not torch.are_deterministic_algorithms_enabled()
    try:
        devices.make_deterministic(torch.device("cuda"))
        assert torch.are_deterministic_algorithms_enabled()
        assert devices.os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    finally:
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = True
        devices.os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
