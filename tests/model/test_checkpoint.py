import dataclasses
import logging
import shutil

import edits
import numpy as np
import pytest
import torch
from recipes import recipe

from pike_mixing.errors import InputError
from pike_mixing.torch import PerDomainAdamW
from pipeline import settings
from pipeline.model import adamw, checkpoint
from pipeline.model.transformer import initial_model, token_losses
from pipeline.runtime import atomic_files

SHAPE = settings.Model(layers=1, width=4, heads=1, head_width=2, vocabulary_multiple=8)
RECIPE = recipe()
CPU = torch.device("cpu")


def started(seed=0, build=adamw.build_adamw):
    net = initial_model(SHAPE, 8, seed)
    return net, build(net, RECIPE)


def of_two_domains(net, recipe):
    return adamw.build_per_domain_adamw(net, recipe, domains=2)


def update(net, optimizer, step):
    tokens = torch.randint(8, (2, 5), generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    token_losses(net, tokens).mean().backward()
    if isinstance(optimizer, PerDomainAdamW):
        # The second domain is away from the first two batches.
        optimizer.update_domain_moments(step // 2 % 2, 0.5)
    optimizer.step()


def progress(step):
    return checkpoint.TrainState(
        step=step,
        method={
            "log_weights_K": np.array([-1e300, -1 / 3]),
            "nested.name": np.array(2**62),
            "turned": np.arange(6.0).reshape(2, 3).T,
        },
        positions_K=np.array([2**40, 3]),
        statistics_positions_K=np.array([5, 0]),
    )


def saved(folder, steps=3, identity="ours", build=adamw.build_adamw):
    """A model after so many updates, and its checkpoint."""
    net, optimizer = started(build=build)
    for step in range(steps):
        update(net, optimizer, step)
    path = folder / f"step{steps}"
    checkpoint.write_checkpoint(
        path, checkpoint.take_snapshot(net, optimizer, progress(steps), identity)
    )
    return path, net, optimizer


def same(first, second):
    return first.keys() == second.keys() and all(
        first[n].dtype == second[n].dtype and np.array_equal(first[n], second[n]) for n in first
    )


@pytest.mark.parametrize("build", [adamw.build_adamw, of_two_domains])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_all_that_makes_the_next_step_comes_back_bit_by_bit(tmp_path, steps, build):
    path, net, optimizer = saved(tmp_path, steps, build=build)
    other, other_optimizer = started(seed=1, build=build)
    at = checkpoint.restore_checkpoint(path, other, other_optimizer, CPU, "ours")
    expected = progress(steps)
    assert at.step == steps
    assert same(at.method, expected.method)
    assert np.array_equal(at.positions_K, expected.positions_K)
    assert np.array_equal(at.statistics_positions_K, expected.statistics_positions_K)
    assert same(other.state_dict(), net.state_dict())
    for step in range(steps, steps + 4):
        update(net, optimizer, step)
        update(other, other_optimizer, step)
    assert same(other.state_dict(), net.state_dict())
    for ours, theirs in zip(net.parameters(), other.parameters(), strict=True):
        assert same(optimizer.state[ours], other_optimizer.state[theirs])


def test_the_same_state_gives_the_same_bytes_and_the_manifest_says_of_what(tmp_path):
    first, _, _ = saved(tmp_path / "a")
    second, _, _ = saved(tmp_path / "b")
    for name in (checkpoint.MODEL, checkpoint.TRAINING, atomic_files.MANIFEST):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    manifest = atomic_files.read_json(first / atomic_files.MANIFEST)
    assert (manifest["step"], manifest["vocabulary"]) == (3, 8)
    assert manifest["model"] == dataclasses.asdict(SHAPE)
    assert manifest["sha256"][checkpoint.MODEL] == atomic_files.sha256(first / checkpoint.MODEL)


def test_a_model_is_loaded_for_evaluation_without_the_rest(tmp_path):
    path, net, _ = saved(tmp_path)
    (path / checkpoint.TRAINING).unlink()
    loaded = checkpoint.load_model(path)
    assert not loaded.training
    assert same(loaded.state_dict(), net.state_dict())
    tokens = torch.tensor([[1, 2, 3]])
    assert torch.equal(loaded(tokens), net(tokens))
    # The probe takes gradients of it.
    assert all(p.requires_grad and p.device == CPU for p in loaded.parameters())


@pytest.mark.parametrize("damage", [edits.flip, edits.cut, edits.put, edits.remove])
@pytest.mark.parametrize("name", [checkpoint.MODEL, checkpoint.TRAINING, atomic_files.MANIFEST])
def test_a_damaged_checkpoint_is_never_resumed(tmp_path, caplog, damage, name):
    saved(tmp_path, steps=0)
    earlier, _, _ = saved(tmp_path, steps=1)
    later, net, optimizer = saved(tmp_path, steps=2)
    assert checkpoint.find_newest_checkpoint_if_resumable(tmp_path, "ours", 2) == later
    damage(name)(later)
    with caplog.at_level(logging.WARNING, "pike"):
        assert checkpoint.find_newest_checkpoint_if_resumable(tmp_path, "ours", 2) == earlier
    assert str(later / name) in caplog.text
    assert "going on from an earlier checkpoint" in caplog.text
    with pytest.raises(InputError, match="step2"):
        checkpoint.restore_checkpoint(later, net, optimizer, CPU, "ours")
    if name != checkpoint.TRAINING:
        with pytest.raises(InputError, match="step2"):
            checkpoint.load_model(later)


def test_checkpoints_that_are_damaged_missing_or_of_another_identity_are_no_beginning(tmp_path):
    ours, _, _ = saved(tmp_path, steps=0)
    assert checkpoint.find_newest_checkpoint_if_resumable(tmp_path, "ours", 2) == ours
    assert checkpoint.find_newest_checkpoint_if_resumable(tmp_path, "another", 2) is None
    assert checkpoint.find_newest_checkpoint_if_resumable(tmp_path / "missing", "ours", 2) is None
    # A run is made from one state of everything: the newest decides.
    theirs, _, _ = saved(tmp_path, steps=1, identity="theirs")
    assert checkpoint.find_newest_checkpoint_if_resumable(tmp_path, "ours", 2) is None
    edits.flip(checkpoint.MODEL)(theirs)
    assert checkpoint.find_newest_checkpoint_if_resumable(tmp_path, "ours", 2) == ours
    edits.flip(checkpoint.MODEL)(ours)
    assert checkpoint.find_newest_checkpoint_if_resumable(tmp_path, "ours", 2) is None


def edit(path, **values):
    """Sets values of a checkpoint's manifest."""
    edits.values(atomic_files.MANIFEST, values)(path)


def test_a_checkpoint_of_a_later_version_is_not_loaded(tmp_path):
    path, net, optimizer = saved(tmp_path, steps=0)
    edit(path, format=checkpoint.FORMAT + 1)
    for load in (
        lambda: checkpoint.load_model(path),
        lambda: checkpoint.restore_checkpoint(path, net, optimizer, CPU, "ours"),
    ):
        with pytest.raises(InputError, match=r"is of format 3, .* reads format 2: use the version"):
            load()
    edit(path, format=edits.GONE)
    with pytest.raises(InputError, match="format is missing"):
        checkpoint.load_model(path)


def test_a_checkpoint_of_another_run_is_refused_and_changes_nothing(tmp_path):
    path, _, _ = saved(tmp_path, identity={"seed": 0})
    other, optimizer = started(seed=1)
    before = {name: value.clone() for name, value in other.state_dict().items()}
    with pytest.raises(InputError, match=r"of another run: seed was 0, is 1: train in a folder"):
        checkpoint.restore_checkpoint(path, other, optimizer, CPU, {"seed": 1})
    assert same(other.state_dict(), before)


def test_a_snapshot_is_of_its_moment(tmp_path):
    net, optimizer = started()
    update(net, optimizer, 0)
    at = progress(1)
    taken = checkpoint.take_snapshot(net, optimizer, at, "ours")
    checkpoint.write_checkpoint(tmp_path / "then", taken)
    for tensor in (at.positions_K, at.method["turned"]):
        tensor += 1
    update(net, optimizer, 1)
    checkpoint.write_checkpoint(tmp_path / "later", taken)
    for name in (checkpoint.MODEL, checkpoint.TRAINING, atomic_files.MANIFEST):
        assert (tmp_path / "then" / name).read_bytes() == (tmp_path / "later" / name).read_bytes()


@pytest.mark.parametrize(
    ("there", "newest"),
    [
        ([2, 4, 6, 8, 10], 10),
        # Of 0, 2, 4 and 6, which are kept, 4 was deleted: go on from 2.
        ([2, 5, 6, 7], 2),
        ([], 0),
    ],
)
def test_the_newest_behind_which_none_that_is_kept_is_missing_is_gone_on_from(
    tmp_path, there, newest
):
    path, _, _ = saved(tmp_path, steps=0)
    for step in there:
        edit(shutil.copytree(path, tmp_path / f"step{step}"), step=step)
    # Folders of other names are passed over.
    shutil.copytree(path, tmp_path / "step12-copy")
    shutil.copytree(path, tmp_path / ".step14.17.part")
    found = checkpoint.find_newest_checkpoint_if_resumable(tmp_path, "ours", 2)
    assert found == tmp_path / f"step{newest}"


def test_a_manifest_of_another_step_or_shape_is_refused(tmp_path):
    path, net, optimizer = saved(tmp_path)
    edit(path, step=2)
    for use in (
        lambda: checkpoint.load_model(path),
        lambda: checkpoint.verified_weights_sha256(path),
        lambda: checkpoint.restore_checkpoint(path, net, optimizer, CPU, "ours"),
    ):
        with pytest.raises(InputError, match="says step 2, but lies in step3: delete"):
            use()
    edit(path, step=3, model=dataclasses.asdict(dataclasses.replace(SHAPE, layers=2)))
    with pytest.raises(InputError, match="describes a model of other shapes than"):
        checkpoint.load_model(path)


def test_a_checkpoint_of_another_vocabulary_is_refused(tmp_path):
    path, _, _ = saved(tmp_path)
    larger = initial_model(SHAPE, 16, 0)
    with pytest.raises(InputError, match="an embedding of 8 pieces, the corpora ask for 16"):
        checkpoint.restore_checkpoint(path, larger, adamw.build_adamw(larger, RECIPE), CPU, "ours")


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    """A full disk: tests/training/test_going_on.py."""
    (tmp_path / "checkpoints").touch()
    with pytest.raises(InputError, match=r"could not be written .*the same command then goes on"):
        saved(tmp_path / "checkpoints")
