"""Checkpoints: all that makes the next step, written whole or not at all, with checksums.

    checkpoints/step{n}/model.safetensors      weights after n updates
    checkpoints/step{n}/training.safetensors   optimizer, mixing method, positions in the data
    checkpoints/step{n}/manifest.json          shapes, checksums and the identity of the run

Random streams are functions of (seed, purpose, index), so no generator's state is needed.

A moment is copied to the CPU's memory (`take_snapshot`) and written from there
(`write_checkpoint`), so that the run need not wait for the disk.
"""

import dataclasses
import itertools
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from pike_mixing.arrays import Array, Ints
from pike_mixing.errors import InputError
from pike_mixing.torch import parallel
from pipeline import errors, settings
from pipeline.model import models
from pipeline.model.transformer import Transformer
from pipeline.runtime import atomic_files, distributed, made_from, manifests
from pipeline.runtime.validate_settings import validate

log = logging.getLogger("pike")

MODEL, TRAINING = "model.safetensors", "training.safetensors"
FORMAT = 2
"""Of a checkpoint's files."""


@dataclasses.dataclass(frozen=True)
class TrainState:
    """Where a run stands, beside weights and optimizer; the file holds its arrays as tensors."""

    step: int
    """Updates done."""
    method: dict[str, Array]
    """State of the mixing method."""
    positions_K: Ints
    """Rows of each domain drawn for training."""
    statistics_positions_K: Ints
    """Rows of each domain drawn for gradient statistics."""
    alarms: dict[str, Array] = dataclasses.field(default_factory=dict)
    """What the alarms remember."""


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """All that a checkpoint holds, in memory of its own: training may go on meanwhile."""

    weights: dict[str, Tensor]
    training: dict[str, Tensor]
    """Optimizer, method, positions and alarms, by dotted names."""
    facts: dict[str, Any]
    """What the manifest says beside checksums."""


def take_snapshot(
    model: Transformer, optimizer: torch.optim.Optimizer, progress: TrainState, identity: Any
) -> Snapshot:
    """Copies a moment to the CPU's memory of the first process; all put shards together."""
    arrays = {f"method.{name}": value for name, value in progress.method.items()}
    arrays |= {f"alarms.{name}": value for name, value in progress.alarms.items()}
    arrays["positions_K"] = progress.positions_K
    arrays["statistics_positions_K"] = progress.statistics_positions_K
    tensors = {name: torch.tensor(value) for name, value in arrays.items()}
    for index, state in optimizer.state_dict()["state"].items():
        for name, value in state.items():
            tensors[f"optimizer.{index}.{name}"] = value
    facts = {
        "format": FORMAT,
        "step": progress.step,
        "identity": identity,
        "model": dataclasses.asdict(model.shape),
        "vocabulary": model.vocabulary,
    }
    weights = _gather_on_main_process(model.state_dict())
    return Snapshot(weights, _gather_on_main_process(tensors), facts)


def _gather_on_main_process(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    keeps = distributed.is_main_process()
    whole = ((n, parallel.full_tensor(t.detach())) for n, t in tensors.items())
    return {n: t.to("cpu", copy=True).contiguous() for n, t in whole if keeps}


def write_checkpoint(folder: Path, snapshot: Snapshot) -> None:
    """Writes `folder` (checkpoints/step{n}) whole or not at all."""
    try:
        with atomic_files.atomic_write(folder) as partial:
            partial.mkdir()
            save_file(snapshot.weights, partial / MODEL)
            save_file(snapshot.training, partial / TRAINING)
            sums = {name: atomic_files.sha256(partial / name) for name in (MODEL, TRAINING)}
            facts = {**snapshot.facts, "sha256": sums}
            atomic_files.write_json(partial / atomic_files.MANIFEST, facts)
    except (OSError, SafetensorError) as error:
        errors.refuse_process_resource_shortage(error)
        raise InputError(
            f"checkpoint {folder} could not be written ({error}): "
            f"{errors.write_error_remedy_else_free_space(error)}; the same command then goes on "
            "from the checkpoint before"
        ) from error


def load_model(folder: Path) -> Transformer:
    """The model of a checkpoint, on the CPU, ready for evaluation."""
    manifest = _read_checked_manifest(folder, MODEL)
    shape = validate(settings.Model, manifest["model"], f"{folder}/{atomic_files.MANIFEST}: model")
    weights = load_file(folder / MODEL)
    model = models.model_for_loading_weights(shape, manifest["vocabulary"])
    own = model.state_dict()
    if {n: t.shape for n, t in weights.items()} != {n: t.shape for n, t in own.items()}:
        raise InputError(
            f"{folder / atomic_files.MANIFEST} describes a model of other shapes than {MODEL}: "
            f"delete {folder} and train again"
        )
    model.load_state_dict(weights, assign=not shape.architecture)
    return model.eval()


def verified_weights_sha256(folder: Path) -> str:
    """Hex SHA-256 of a checkpoint's weights, which its manifest vouches for."""
    return str(_read_checked_manifest(folder, MODEL)["sha256"][MODEL])


def restore_checkpoint(
    folder: Path,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
    identity: Any,
) -> TrainState:
    """Puts weights and optimizer back in place and returns the rest.

    A checkpoint that is damaged, or of another identity, is refused and leaves both as they were.
    In shards, one tensor at a time is whole on the device.
    """
    manifest = _read_checked_manifest(folder, MODEL, TRAINING)
    if others := made_from.identity_differences(manifest["identity"], identity):
        told = "; ".join(map(str, others))
        raise InputError(f"{folder} is of another run: {told}: train in a folder of its own")
    # A corpus's manifest says how many pieces there are, and no fingerprint is over that.
    if manifest["vocabulary"] != model.vocabulary:
        raise InputError(
            f"{folder} has an embedding of {manifest['vocabulary']:,} pieces, the corpora ask for "
            f"{model.vocabulary:,}: pack them anew"
        )
    tensors = load_file(folder / TRAINING)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    own_weights, weights = model.state_dict(), load_file(folder / MODEL)
    sharded = {
        n: distributed.distribute_if_same_shape(w, own_weights[n]) for n, w in weights.items()
    }
    model.load_state_dict(sharded)
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in _strip_prefix(tensors, "optimizer.").items():
        index, _, field = name.partition(".")
        own = distributed.distribute_if_same_shape(value.to(device), parameters[int(index)])
        state.setdefault(int(index), {})[field] = own
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    return TrainState(
        step=manifest["step"],
        method=_to_arrays(_strip_prefix(tensors, "method.")),
        positions_K=tensors["positions_K"].numpy(),
        statistics_positions_K=tensors["statistics_positions_K"].numpy(),
        alarms=_to_arrays(_strip_prefix(tensors, "alarms.")),
    )


def find_newest_checkpoint_if_resumable(
    checkpoints: Path, identity: Any, checkpoint_every: int
) -> Path | None:
    """The newest whole checkpoint of the run with this identity, or None.

    Damaged checkpoints are logged and passed over: an earlier one leads to the same bits. So are
    those behind a missing one of the checkpoints that are kept, every `checkpoint_every` steps: it
    is made again on the way. Where the newest whole one is of another identity none serves, and
    what differs is logged.
    """
    result = atomic_files.step_entries(checkpoints)
    gap = next(step for step in itertools.count(step=checkpoint_every) if step not in result)
    for folder in [path for step, path in reversed(result.items()) if step < gap]:
        try:
            manifest = _read_checked_manifest(folder, MODEL, TRAINING)
        except InputError as error:
            log.warning("%s; going on from an earlier checkpoint", error)
            continue
        others = made_from.identity_differences(manifest["identity"], identity)
        if not others:
            return folder
        # An earlier one, which had not run the code that changed, would serve; but a run is made
        # from one state of everything.
        log.info("%s: of another run: %s", checkpoints, "; ".join(map(str, others)))
        break
    return None


def _read_checked_manifest(folder: Path, *files: str) -> dict[str, Any]:
    known = manifests.read_checkpoint_manifest(folder)
    if known["format"] != FORMAT:
        raise InputError(
            f"{folder} is of format {known['format']}, and this version of the code reads format "
            f"{FORMAT}: use the version that wrote it, or train in another folder"
        )
    sums = known["sha256"]
    for name in files:
        path = folder / name
        if not path.exists() or atomic_files.sha256(path) != sums.get(name):
            raise InputError(
                f"{path} is {'damaged' if path.exists() else 'missing'}: its checksum is not the "
                f"manifest's; train again"
            )
    return known


def _strip_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _to_arrays(tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}
