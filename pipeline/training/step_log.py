"""What is written down of a step, how fast it was, and what is warned of.

Shapes: K domains.
"""

import dataclasses
import itertools
import logging
import math
import re
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import nn

from pike_mixing.alarms import Alarm, Watch
from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.interface import Method, Needs, Signals, State, Statistics
from pike_mixing.moved_rows import Movement, needs_movement_check
from pike_mixing.torch import parallel
from pike_mixing.torch.step_gradient import StepResult
from pipeline import settings
from pipeline.runtime import accelerators, devices, xla_chips
from pipeline.runtime.accelerators import ACCELERATORS
from pipeline.training.run_folder import RunFolder


class Meter:
    """Turns a step's seconds into the columns of its pace."""

    def __init__(self, model: nn.Module, work: settings.Run, device: torch.device) -> None:
        self._tokens, self._device = work.training.rows * work.training.length, device
        self._devices = parallel.world_size() * xla_chips.chip_count(device)
        self._flops = model_flops_per_token(model, work.model, work.training.length) * self._tokens
        self.peak_flops_per_second = data_sheet_flops_per_second(
            devices.describe_device(device), work.training.precision
        )
        """FLOP/s that one device can reach; None where that is not known."""

    def speed_and_memory_columns(self, seconds: float) -> dict[str, float]:
        """What a step of so many seconds makes of the tokens, the devices' peak and memory."""
        peak = (self.peak_flops_per_second or math.nan) * self._devices
        return {
            "tokens_per_second": self._tokens / seconds,
            # Model FLOPs over the peak (Chowdhery et al. 2022, Appendix B); NaN: unknown.
            "model_flops_utilisation": self._flops / seconds / peak,
            # The most so far: held by tensors on a GPU, by the process on a CPU.
            "memory_bytes": devices.peak_device_or_process_bytes(self._device),
        }


def model_flops_per_token(model: nn.Module, shape: settings.Model, length: int) -> float:
    """FLOPs of training on one token, by the weights that the model has."""
    matrices = sum(p.numel() for p in model.parameters() if p.ndim > 1)
    return accelerators.training_flops_per_token(matrices, shape, length)


def data_sheet_flops_per_second(device_name: str, precision: str) -> float | None:
    """The data sheet's FLOP/s of a GPU by torch's name of it, such as "cuda: NVIDIA H200".

    The rows are of whole GPUs on SXM boards; cards for a PCIe slot, NVL pairs and parts of a GPU
    (MIG) may have lower peaks, which are not known here.
    """
    words = set(re.findall(r"[a-z0-9]+", device_name.lower()))
    if not device_name.startswith("cuda") or words & {"pcie", "nvl", "mig"}:
        return None
    fitting = [row for name, row in ACCELERATORS.items() if name.partition("-")[0] in words]
    return fitting[0].peak_flops[precision] if fitting else None


MEANINGS = {
    "data": "rows read and moved to the device",
    "forward": "forward passes, with the loss and its gradient by the logits",
    "backward": "backward passes",
    "statistics": "norms and products of gradients; rows of their own, their passes too",
    "gradient": "clipping, combination, waiting for the device",
    "optimizer": "AdamW",
    "method": "the mixing method, and losses after the update where it wants them",
    "validation": "losses on held-out rows or rows of comparison",
    "records": "what is written down of a step",
    "checkpoint": "copies of weights and states, waiting for the disk",
    "loop": "the rest of the loop",
}
"""Phases of a step in their order, and what they hold."""


def phase_time_table(folder: Path) -> str:
    """Table of a finished run: milliseconds per step, share of each phase, and what stands out."""
    timings = pq.read_table(folder / "timings.parquet").to_pydict()
    seconds = dict(zip(timings["phase"], timings["seconds"], strict=True))
    steps = pq.read_table(folder / "steps.parquet", columns=["step", "seconds"]).to_pydict()
    number, whole = len(steps["step"]), sum(seconds.values())
    lines = [f"{'phase':<12}{'ms a step':>12}{'share':>9}"]
    for phase in sorted(seconds, key=list(MEANINGS).index):
        milliseconds, share = 1e3 * seconds[phase] / number, seconds[phase] / whole
        lines.append(f"{phase:<12}{milliseconds:>12.3f}{share:>9.2%}  {MEANINGS[phase]}")
    lines.append(f"{'all':<12}{1e3 * whole / number:>12.3f}{1:>9.2%}  {number:,} steps")
    first, *others = steps["seconds"]
    if others:
        lines.append(
            f"the first step, which compiles what is compiled, took {first:,.3f} s; of the others "
            f"the median {median(others):.3f} s"
        )
    measured = pq.read_table(folder / "gradient_statistics.parquet", columns=["step"])
    firing = set(measured["step"].to_pylist())
    taken = list(zip(steps["step"], steps["seconds"], strict=True))
    fired = [s for step, s in taken if step in firing]
    plain = [s for step, s in taken if step not in firing]
    if fired and plain:
        ratio, extra = median(fired) / median(plain), sum(fired) - len(fired) * median(plain)
        lines.append(
            f"{len(fired):,} steps with gradient statistics took {ratio:.2f} times a step without "
            f"(medians), {extra / whole:.2%} of all time"
        )
    return "\n".join(lines)


log = logging.getLogger("pike")


def build_alarm_watch(method: Method, work: settings.Run, epoch_rows: dict[str, float]) -> Watch:
    recipe = work.training
    limits = recipe.alarms
    movement = Movement(
        method,
        work.domains,
        work.seed,
        rows=recipe.rows,
        steps=recipe.steps,
        window=limits.window,
        name=work.method_name,
        rounding=recipe.rounding,
    )
    return Watch(
        domains=work.domains,
        epoch_rows=epoch_rows,
        adapts=method.needs() != Needs(),
        **dataclasses.asdict(limits),
        movement=movement if needs_movement_check(method) else None,
    )


class UnwrittenStep(NamedTuple):
    """What is to be written down of a step."""

    step: int
    result: StepResult
    """What the backward pass gave."""
    weights_K: Floats
    """Sampling weights of the batch."""
    positions_K: Ints
    """Rows of each domain that were read up to and with it."""
    rate: float
    """The learning rate."""
    seconds: float
    """What the step took."""


class StepLog:
    """Adds rows to a run's records, those of the alarms that they raise too."""

    def __init__(self, work: settings.Run, folder: RunFolder, watch: Watch, meter: Meter) -> None:
        self._work, self._folder, self._records = work, folder.folder, folder.records
        self._watch, self._meter = watch, meter
        self.alarms = watch.init()
        """What the alarms remember; assign it to go on from a checkpoint."""
        self.unwritten: UnwrittenStep | None = None
        """The step before, of which nothing is known until it is waited for."""
        self.shown: dict[str, str] = {}
        """Loss and weights of the last step, for the progress bar."""

    def refuse_non_finite(self, signals: Signals, gradient_norm: float = 0.0) -> None:
        """Raises InputError where what a step measured, or its gradient's norm, is no number."""
        count_K, loss_K = signals.count_K, signals.loss_K
        assert count_K is not None
        assert loss_K is not None
        bad = list(itertools.compress(self._work.domains, ~np.isfinite(loss_K) & (count_K > 0)))
        if bad or not math.isfinite(gradient_norm):
            what = f"the loss of {', '.join(bad)}" if bad else "the gradient's norm"
            raise InputError(
                f"{self._folder}: {what} is not a finite number at step {signals.step}: lower "
                "training.peak_learning_rate or lengthen training.warmup_steps; the checkpoints "
                "before this step are sound"
            )

    def write_pending_step(self) -> None:
        """Adds the step that is unwritten, whose numbers have come from the device meanwhile."""
        one, self.unwritten = self.unwritten, None
        if one is not None:
            with self._records.timed("gradient"):
                self.refuse_non_finite(one.result.signals, one.result.gradient_norm)
            with self._records.timed("records"):
                self._add_step_and_alarms(one)

    def _add_step_and_alarms(self, unwritten: UnwrittenStep) -> None:
        step, result, weights_K, positions_K, rate, seconds = unwritten
        records, count_K, chosen_K = self._records, result.signals.count_K, result.coefficient_K
        assert count_K is not None
        loss = float(np.nansum(result.losses * count_K / self._work.training.rows))
        shares = " ".join(f"{w:.2f}" for w in weights_K.tolist())
        self.shown = {"loss": f"{loss:.3f}", "weights": shares}
        records.add_row(
            "steps",
            step=step,
            tokens=(step + 1) * self._work.training.rows * self._work.training.length,
            loss=loss,
            learning_rate=rate,
            gradient_norm=result.gradient_norm,
            seconds=seconds,
            **self._meter.speed_and_memory_columns(seconds),
        )
        records.add_row_per_domain("domain_losses", step, loss=result.losses)
        records.add_row_per_domain("weights", step, weight=weights_K, count=count_K)
        if chosen_K is not None:
            records.add_row_per_domain("coefficients", step, coefficient=chosen_K)
        self._record_alarms(
            self._watch.after_step(self.alarms, step, weights_K, count_K, positions_K, chosen_K)
        )
        if result.signals.statistics is not None:
            # Their time is the pass's own.
            self.add_statistics_and_alarms(step, result.signals.statistics, math.nan)
        records.write_if_due()

    def add_statistics_and_alarms(self, step: int, measured: Statistics, seconds: float) -> None:
        """Adds gradient statistics and the seconds that they took; NaN for those of the batch."""
        columns = {name.removesuffix("_K"): value_K for name, value_K in vars(measured).items()}
        columns["rows"] = measured.rows_K.astype(np.int64)
        columns["seconds"] = np.full(len(measured.rows_K), seconds)
        self._records.add_row_per_domain("gradient_statistics", step, **columns)
        self._record_alarms(self._watch.after_statistics(self.alarms, step, measured))

    def record_validation_alarms(self, step: int, loss_K: Floats) -> None:
        """Warns of domains whose held-out loss has risen."""
        self._record_alarms(self._watch.after_validation(self.alarms, step, loss_K))

    def _record_alarms(self, state_and_alarms: tuple[State, list[Alarm]]) -> None:
        """Keeps what the alarms remember, and tells and records what they raise."""
        self.alarms, raised = state_and_alarms
        for alarm in raised:
            log.warning("step %d: %s", alarm.step, alarm.message)
            self._records.add_row("alarms", **alarm._asdict())
