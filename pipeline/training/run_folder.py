"""A run's folder: where training begins or goes on, what it keeps on the way, and how it ends.

run.json                what to train
checkpoints/step{n}/    kept every so many steps, and the newest few to go on from
log.jsonl               records as they come
starts.json             the step of each start: 0, and that of each going on; a run without it
                        begins anew
*.parquet               records, once the run is done
manifest.json           appears last
"""

import contextlib
import functools
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import torch

from pike_mixing.errors import InputError
from pike_mixing.setting_limits import NonNegativeInt
from pike_mixing.torch import parallel
from pipeline import settings
from pipeline.model import checkpoint
from pipeline.model.transformer import Transformer, trainable_parameter_count
from pipeline.runtime import atomic_files, devices, distributed, locks, made_from, manifests
from pipeline.runtime.signal_handler import Interrupted
from pipeline.training.metric_log import LOG, RunRecords, is_empty_or_begins_as_run_log

log = logging.getLogger("pike")


class BackgroundWriter:
    """One thread that writes, and at most one piece of work that is not done.

    What goes wrong in it is raised at the next call. Within `with`, the end waits for the last
    work, also after an error, so that nothing is written any more behind it.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "writer")
        self._pending: Future[None] | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Begins to do `work`, once that before it is done; whatever went wrong there is raised."""
        self.wait()
        self._pending = self._thread.submit(work)

    def wait(self) -> None:
        """Waits for the work that was begun; whatever went wrong in it is raised, once."""
        pending, self._pending = self._pending, None
        try:
            if pending is not None:
                pending.result()
        finally:
            # An error holds this frame: it would hold itself by it, and the files it has open.
            del pending

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Waits; with an error under way the writer's own is logged and does not replace it.

        A run that was asked to end must not say that it saved when it did not.
        """
        self._thread.shutdown()
        if kind is None or issubclass(kind, Interrupted):
            self.wait()
            return
        pending, self._pending = self._pending, None
        error = None if pending is None else pending.exception()
        if error is not None:
            # The text alone: a log may be kept, and the error holds what it had open.
            log.warning("%s", str(error))


class RunFolder:
    """The folder of one run, whose lease is held.

    Of several processes that train together, the first holds the lease and alone writes.
    """

    def __init__(
        self,
        lease: locks.Lease,
        work: settings.Run,
        identity: dict[str, Any],
        modules: tuple[str, ...],
        model: Transformer,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self.lease, self.work, self.identity, self._modules = lease, work, identity, modules
        self.model, self.optimizer = model, optimizer
        self.folder = lease.folder
        self.checkpoints = self.folder / "checkpoints"
        self.starts_file = self.folder / "starts.json"
        self.starts: list[int] = []
        writes = distributed.is_main_process()
        self.records = RunRecords(self.folder, work.domains, writes=writes)
        self.writer = BackgroundWriter()

    def begin_or_resume(
        self, device: torch.device, initial: checkpoint.TrainState
    ) -> checkpoint.TrainState:
        """Where the run stands: at its last checkpoint, or at its beginning.

        A run goes on only if it was stopped, or has lost a checkpoint, and is made from the same:
        one that is finished and whole, or forced, or whose `starts.json` is gone, begins anew.

        Nothing in the folder is deleted before all that can be refused has been looked at.
        """
        is_main, state = distributed.is_main_process(), initial
        resumable = distributed.broadcast_from_main(self._find_resumable_checkpoint_and_read_starts)
        if resumable is not None:
            state = checkpoint.restore_checkpoint(
                resumable, self.model, self.optimizer, device, self.identity
            )
            log.info("going on from %s", resumable)
            if is_main:
                self._delete_checkpoints_and_records_after(state.step)
        elif is_main:
            self._delete_checkpoints_manifest_and_log()
        if is_main:
            # What killed processes left.
            for path in (*self.folder.glob(".*.part"), *self.folder.glob("*/.*.part")):
                atomic_files.remove_path(path)
        if resumable is None:
            self.save_checkpoint(state)
        # One that was killed behind its last step has nothing left to train.
        if is_main and state.step < self.work.training.steps:
            self.starts.append(state.step)
            atomic_files.write_json(self.starts_file, self.starts)
        return state

    def _find_resumable_checkpoint_and_read_starts(self) -> Path | None:
        """The checkpoint to go on from, or None; the folder is one of a run's own."""
        _refuse_foreign_files_to_delete(self.folder)
        manifest = self.folder / atomic_files.MANIFEST
        recipe, finished = self.work.training, manifest.exists()
        if not self.starts_file.exists() or made_from.is_restart_forced(manifest):
            return None
        result = checkpoint.find_newest_checkpoint_if_resumable(
            self.checkpoints, self.identity, recipe.checkpoint_every
        )
        if finished and result == self.checkpoints / f"step{recipe.steps}":
            return None
        if result is not None:
            self.records.refuse_missing_steps(int(result.name.removeprefix("step")))
            self.starts = atomic_files.read_json(self.starts_file)
            remedy = f"delete {self.checkpoints} to train the run anew"
            manifests.require_type(self.starts, list[NonNegativeInt], self.starts_file, remedy)
        return result

    def _delete_checkpoints_and_records_after(self, step: int) -> None:
        """Deletes what lies behind the checkpoint to go on from.

        Checkpoints go first: one without the records before it could not be gone on from.
        """
        for number, folder in atomic_files.step_entries(self.checkpoints).items():
            if number > step:
                atomic_files.remove_path(folder)
        self.records.cut_after_checkpoint(step)

    def _delete_checkpoints_manifest_and_log(self) -> None:
        if atomic_files.step_entries(self.checkpoints):
            log.info("%s: starting anew", self.checkpoints)
        # The first one gone, a process that is killed here has begun anew, too.
        for old in (self.starts_file, self.folder / atomic_files.MANIFEST, self.checkpoints):
            atomic_files.remove_path(old)
        made_from.forget_copy_and_restart_mark(self.folder / atomic_files.MANIFEST)
        self.records.begin_log_anew()

    def is_checkpoint_scheduled(self, step: int) -> bool:
        """Whether a checkpoint is due after so many updates."""
        return step % self.work.training.resume_every == 0 or self._is_kept_step(step)

    def _is_kept_step(self, step: int) -> bool:
        recipe = self.work.training
        return step % recipe.checkpoint_every == 0 or step == recipe.steps

    def save_checkpoint(self, state: checkpoint.TrainState) -> None:
        """Begins to write the records and then the checkpoint of this moment.

        The run goes on meanwhile; it waits where the checkpoint before is not written yet.
        """
        if distributed.is_main_process():
            self.lease.refuse_if_lost()
        with self.records.timed("checkpoint"):
            # Two copies of all states would not always fit: the one before goes first.
            self.writer.wait()
            self.records.mark_before_checkpoint(state.step)
            # With what code of the user's own has been run up to now.
            identity = self.identity | made_from.code_and_versions("pretrain", self._modules)
            moment = checkpoint.take_snapshot(self.model, self.optimizer, state, identity)
            if distributed.is_main_process():
                write = self._fsync_log_and_write_checkpoint
                self.writer.start(functools.partial(write, state.step, moment))

    def _fsync_log_and_write_checkpoint(self, step: int, snapshot: checkpoint.Snapshot) -> None:
        """Has both on the disk, in this order, and drops what they make superfluous."""
        self.records.fsync_written_lines()
        checkpoint.write_checkpoint(self.checkpoints / f"step{step}", snapshot)
        self._delete_all_but_kept_and_newest(step, self.work.training.resume_keep)

    def _delete_all_but_kept_and_newest(self, last_step_to_spare: int, newest_count: int) -> None:
        """Deletes the checkpoints that only serve to go on, but for the newest up to a step."""
        result = atomic_files.step_entries(self.checkpoints)
        spared = [number for number in result if number <= last_step_to_spare][-newest_count:]
        for number, folder in result.items():
            if number not in spared and not self._is_kept_step(number):
                atomic_files.remove_path(folder)

    def finish_and_prune_checkpoints(
        self,
        snapshot: made_from.InputSnapshot,
        epochs: dict[str, float],
        device: torch.device,
    ) -> None:
        """Waits for the last checkpoint, joins the records and writes the manifest."""
        work, recipe = self.work, self.work.training
        with self.records.timed("checkpoint"):
            self.writer.wait()
        self.lease.refuse_if_lost()
        self._delete_all_but_kept_and_newest(recipe.steps, newest_count=1)
        kept = atomic_files.step_entries(self.checkpoints)
        verified = checkpoint.verified_weights_sha256
        sums = {path / checkpoint.MODEL: verified(path) for path in kept.values()}
        tables = self.records.write_tables(recipe.steps)
        seconds = self.records.wall_seconds_in_tables()
        tokens = recipe.steps * recipe.rows * recipe.length
        snapshot.write_manifest(
            self.folder / atomic_files.MANIFEST,
            settings=self.identity["run"],
            files=[*tables, *sums],
            facts={
                "run": f"{work.scenario}/{work.model_name}/{work.method_name}/seed{work.seed}",
                "domains": list(work.domains),
                "steps": recipe.steps,
                "tokens": tokens,
                "epochs": epochs,
                "parameters": trainable_parameter_count(self.model),
                "device": devices.describe_device(device),
                "processes": parallel.world_size(),
                "wall_seconds": seconds,
                "tokens_per_second": tokens / seconds,
                "resumes": len(self.starts) - 1,
                "data_fingerprint": atomic_files.json_digest(self.identity["corpora"]),
                "checkpoints": list(kept),
                "weights_sha256": sums[kept[recipe.steps] / checkpoint.MODEL],
            },
            known_sha256=sums,
        )


def _refuse_foreign_files_to_delete(folder: Path) -> None:
    """Refuses a folder in which training would clear away what no training wrote."""
    result = [
        entry
        for entry in (folder / "checkpoints").glob("*")
        if not entry.name.removeprefix(".").startswith("step")
    ]
    if (log_file := folder / LOG).exists() and not is_empty_or_begins_as_run_log(log_file):
        result.append(log_file)
    manifest = folder / atomic_files.MANIFEST
    with contextlib.suppress(InputError):
        if manifests.recorded_stage(atomic_files.read_json(manifest)) != "pretrain":
            result.append(manifest)
    if result:
        raise InputError(
            f"{folder} holds {', '.join(map(str, result[:3]))}, which no training wrote: put "
            "run.json into a folder of its own"
        )
