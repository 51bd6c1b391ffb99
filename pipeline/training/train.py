"""The only training loop.

Shapes: K domains, B rows of a batch, L tokens of a row.
"""

import contextlib
import functools
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pike_mixing import RULES, method_registry
from pike_mixing.arrays import Ints
from pike_mixing.interface import Method
from pike_mixing.torch import parallel
from pike_mixing.torch.engine import Engine
from pike_mixing.torch.pass_interface import Passes
from pike_mixing.torch.rows import Rows, UnreadRows
from pike_mixing.torch.step_gradient import StepGradient
from pike_mixing.torch.step_rows import DealtRows
from pipeline import errors, settings
from pipeline.data.batches import DomainRows
from pipeline.model import adamw, checkpoint, learning_rate, models
from pipeline.model.pipeline_passes import PipelinePasses
from pipeline.model.transformer import trainable_parameter_count
from pipeline.runtime import (
    accelerators,
    atomic_files,
    code_fingerprint,
    devices,
    distributed,
    locks,
    made_from,
    pick_device,
    signal_handler,
    xla_chips,
)
from pipeline.runtime.progress import Progress
from pipeline.runtime.validate_settings import validate
from pipeline.training import inputs, step_log
from pipeline.training.run_folder import RunFolder
from pipeline.training.step_log import Meter, StepLog, UnwrittenStep, build_alarm_watch


class MixedRows:
    """A `RowSource`; of several processes each reads the rows that it passes."""

    def __init__(
        self,
        mixtures: Mapping[str, DomainRows],
        passes: Passes,
        *,
        rows: int,
        seed: int,
        micro_batch_rows: int,
        device: torch.device,
    ) -> None:
        self.domains = next(iter(mixtures.values())).domains
        self.batch_rows, self.seed = rows, seed
        self._mixtures, self._passes, self._micro_batch_rows = mixtures, passes, micro_batch_rows
        self._place = devices.batch_device(device)

    def draw_rows(self, purpose: str, positions_K: Ints, count_K: Ints) -> DealtRows:
        """The next rows of each domain for a purpose, see `RowSource`."""
        mixture = self._mixtures[purpose]

        def read(which: range) -> Tensor:
            tokens_BxL1 = mixture.read_tokens_at(count_K, positions_K, which)
            return devices.copy_to_device(torch.from_numpy(tokens_BxL1), self._place)

        batch: Rows = UnreadRows(read, range(int(count_K.sum())), self._place)
        if parallel.world_size() == 1:
            # At once, which is faster than part by part.
            batch = batch.read()
        return DealtRows(self._passes, batch, count_K, self._micro_batch_rows)


log = logging.getLogger("pike")


@distributed.fail_together()
def pretrain(
    run: Path,
    corpora: Path,
    *,
    reference: Path | None = None,
    mixture: Path | None = None,
    device: str = "auto",
    threads: int | None = None,
    save_on: str = "USR1",
    profile: bool = False,
    peak_flops: float | None = None,
    shard: bool = False,
    recompute: bool = False,
    processes: int = 1,
) -> str | None:
    """Trains one run to its end, from its last checkpoint where it was stopped.

    A finished run begins anew.

    Started by torchrun, the processes train it together; any number of them can go on with it.

    Args:
        run: `run.json`; checkpoints, records and at last `manifest.json` appear beside it.
        corpora: Folder of the packed corpora of the run's tokenizer, one subfolder per domain.
        reference: Folder of the finished run whose model is the reference, for a method with one.
        mixture: Manifest of a found mixture or of a grid's choice, for a method that takes one.
        device: Kind of device: auto, cpu, cuda or xla.
        threads: CPU threads of this process; torch's own choice when absent.
        save_on: Signal that asks for a checkpoint; SIGTERM and SIGINT ask for one and the end.
        profile: Whether to wait for the device after each phase of a step, and return a table of
            what the time went to.
        peak_flops: FLOP/s that the device can reach, for the recorded utilisation; absent: a GPU's
            as its data sheet has it, and none of a CPU.
        shard: Whether each process or chip keeps a part of weights and optimizer states only.
        recompute: Whether blocks are computed again in the backward pass, whatever the recipe says.
        processes: Processes or chips that are to train together; with fewer the run is refused.

    Raises:
        InputError: settings, corpora or the disk do not allow the run, the loss is no number any
            more, or another process is writing the run.
        Interrupted: a signal ended the run, after a checkpoint.
    """
    values = atomic_files.read_json(run)
    work = validate(settings.Run, values, str(run))
    chosen = inputs.settings_from_grid_or_refuse(work, mixture)
    if work.rule not in RULES:
        code_fingerprint.start_recording_loaded_files()
    method = method_registry.build_method(work.rule, work.method | chosen, f"{run}: method")
    devices.keep_freed_memory()
    if threads is not None:
        # The last bits of results depend on their number.
        torch.set_num_threads(threads)
    place = pick_device.claim_device(device)
    if work.training.deterministic:
        devices.make_deterministic(place)
    distributed.join_processes(place)
    # The first's lease is for all.
    is_main = distributed.is_main_process()
    alone = parallel.world_size() == 1
    with (
        errors.explain_disk_errors(run.parent),
        locks.acquire_lease(run.parent)
        if is_main
        else contextlib.nullcontext(locks.Lease(run.parent)) as lease,
        signal_handler.handle_signals(save_on, distributed.all_reduce_max, alone=alone) as signals,
    ):
        given = inputs.read_inputs(work, method, corpora, reference, mixture)
        inputs.refuse_too_few_joined_devices(processes, place)
        manifest = run.parent / atomic_files.MANIFEST
        if distributed.broadcast_from_main(
            lambda: given.snapshot.restore_manifest_if_unchanged(manifest, values)
        ):
            return None
        training = _Training(work, method, values, given, place, lease, signals, shard, recompute)
        if peak_flops is not None:
            training.meter.peak_flops_per_second = peak_flops
        if profile:
            training.records.clock.settle = functools.partial(devices.synchronize, training.device)
        with training.folder.writer:
            training.run()
    return step_log.phase_time_table(run.parent) if profile and is_main else None


class _Training:
    """One run in the making: what the loop's parts share."""

    def __init__(
        self,
        work: settings.Run,
        method: Method,
        values: dict[str, Any],
        given: inputs.RunInputs,
        device: torch.device,
        lease: locks.Lease,
        signals: signal_handler.SignalState | None = None,
        shard: bool = False,
        recompute: bool = False,
    ) -> None:
        self.work, self.given = work, given
        self.device, self.signals = device, signals or signal_handler.SignalState()
        self.chips, self.shard = xla_chips.chip_count(device), shard
        inputs.refuse_untrainable(work, method, device, shard=shard, recompute=recompute)
        recipe = work.training
        self.method = method = method.for_run(given.run_facts(recipe))
        limits = {"train": recipe.max_epochs, "statistics": None, "comparison": None}
        mixtures = {
            purpose: DomainRows(given.corpora, recipe.length, work.seed, purpose, max_epochs=limit)
            for purpose, limit in limits.items()
        }
        if given.held_out:
            mixtures["validation"] = DomainRows(
                given.held_out, recipe.length, work.seed, "validation"
            )
        self.train_rows = mixtures["train"]
        code = inputs.root_code_modules(work)
        identity = {
            "run": values,
            **made_from.code_and_versions("pretrain", code),
            **given.identity,
        }
        pieces = next(iter(given.corpora.values())).vocabulary
        inputs.refuse_beyond_host_memory(work, pieces, device)
        vocabulary = work.model.padded_vocabulary(pieces)
        model = models.initial_or_pretrained_model(work.model, vocabulary, work.seed)
        self.model = model.to(device)
        self.model.configure(recipe)
        self.model.recomputes |= recompute
        if shard and self.chips == 1:
            models.shard_model(self.model, device)
        if method.needs().moments_per_domain:
            self.optimizer: torch.optim.Optimizer = adamw.build_per_domain_adamw(
                self.model, recipe, len(work.domains)
            )
        else:
            self.optimizer = adamw.build_adamw(self.model, recipe)
        epoch_rows = {d: float(c.row_count(recipe.length)) for d, c in given.corpora.items()}
        self.folder = RunFolder(lease, work, identity, code, self.model, self.optimizer)
        self.records = self.folder.records
        self.meter = Meter(self.model, work, device)
        watch = build_alarm_watch(method, work, epoch_rows)
        self.log = StepLog(work, self.folder, watch, self.meter)
        self.engine = self._build_engine(mixtures)

    def _build_engine(self, mixtures: dict[str, DomainRows]) -> Engine:
        """The library's engine on the run's rows, model and optimizer."""
        recipe, given, device = self.work.training, self.given, self.device
        reference = given.reference and given.reference.to(device).configure(recipe)
        passes = PipelinePasses(self.model, reference, self.records.timed)
        passes.accumulates_whole = accelerators.can_keep_whole_gradient(
            trainable_parameter_count(self.model), devices.gpu_memory_bytes(device)
        )
        # Of each chip.
        micro_batch_rows = min(recipe.rows, self.chips * (recipe.microbatch_rows or recipe.rows))
        gradient = StepGradient(
            self.model,
            passes,
            micro_batch_rows=micro_batch_rows,
            statistics_micro_batch_rows=recipe.statistics_microbatch,
            optimizer=self.optimizer,
            max_norm=recipe.clip_norm,
        )
        rows = MixedRows(
            mixtures,
            passes,
            rows=recipe.rows,
            seed=self.work.seed,
            micro_batch_rows=micro_batch_rows,
            device=device,
        )
        return Engine(self.method, rows, gradient, recipe.rounding)

    def run(self) -> None:
        """From the last checkpoint to the manifest."""
        work, recipe, engine = self.work, self.work.training, self.engine
        begun = self.folder.begin_or_resume(self.device, self._state())
        if self.shard and self.chips > 1:
            xla_chips.divide_matrices_over_chips(self.model, self.optimizer)
        self.log.alarms = begun.alarms
        engine.resume(begun.step, begun.method, begun.positions_K, begun.statistics_positions_K)
        label = f"{work.scenario}/{work.method_name}/seed{work.seed}"
        tokens = recipe.rows * recipe.length
        with Progress(
            label,
            total=recipe.steps * tokens,
            unit="token",
            done=engine.step * tokens,
            quiet=not distributed.is_main_process(),
        ) as bar:
            while engine.step < recipe.steps:
                with self.records.timed("loop"):
                    self._check_validation_alarms_if_due()
                    self._train_step()
                    if engine.step == recipe.steps:
                        self._check_validation_alarms_if_due()
                    bar.add(tokens, **self.log.shown)
                is_scheduled = self.folder.is_checkpoint_scheduled(engine.step)
                if self.signals.take_save_or_stop_request() or is_scheduled:
                    self.given.refuse_changed_corpora()
                    self.log.write_pending_step()
                    self.folder.save_checkpoint(self._state())
                if engine.step < recipe.steps:
                    self.signals.raise_if_stop_taken()
        epochs = self.train_rows.epochs_by_domain(engine.positions_K)
        log.info("%s: epochs of %s", label, ", ".join(f"{d} {e:.2f}" for d, e in epochs.items()))
        if distributed.is_main_process():
            self.folder.finish_and_prune_checkpoints(self.given.snapshot, epochs, self.device)

    def _state(self) -> checkpoint.TrainState:
        """Where the run stands."""
        return checkpoint.TrainState(
            step=self.engine.step,
            method=self.engine.state,
            positions_K=self.engine.positions_K,
            statistics_positions_K=self.engine.fresh_positions_K,
            alarms=self.log.alarms,
        )

    def _check_validation_alarms_if_due(self) -> None:
        """Looks at the held-out losses where it is time, and after the last step."""
        recipe, step = self.work.training, self.engine.step
        every = recipe.validation_every
        if every is not None and (step % every == 0 or step == recipe.steps):
            self.log.write_pending_step()
            with self.records.timed("validation"):
                self.log.record_validation_alarms(
                    step, self.engine.measure_domain_losses("validation", recipe.rows)
                )

    def _train_step(self) -> None:
        """One iteration of Algorithm `alg: main`, lines 4-12, with any method in PiKE's place.

        What it measured is written down when the next step has been launched.
        """
        began, timed, engine = time.perf_counter(), self.records.timed, self.engine
        step = engine.step
        fresh = engine.measure_and_observe_before_step()
        if fresh is not None:
            self.log.write_pending_step()
            self.log.add_statistics_and_alarms(step, *fresh)
        # A rule may write into its state.
        weights_K = self.method.weights(engine.state, step).copy()
        result = engine.backward()
        with timed("optimizer"):
            rate = learning_rate.learning_rate_at_step(step, self.work.training)
            learning_rate.set_learning_rate(self.optimizer, rate)
            self.optimizer.step()
            devices.mark_step(self.device)
        with timed("method"):
            if engine.needs_to_observe:
                self.log.refuse_non_finite(result.signals)
            engine.observe_and_end_step(result)
        self.log.write_pending_step()
        seconds = time.perf_counter() - began
        self.log.unwritten = UnwrittenStep(
            step, result, weights_K, engine.positions_K, rate, seconds
        )
