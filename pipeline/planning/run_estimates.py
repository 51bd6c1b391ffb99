"""What a run's training, evaluation and probe take: memory, disk and hours, from its settings.

A plan must not wait for torch, so the formulas stand here and tests hold them to the model itself.

Parameters N follow `model.transformer`. Training FLOPs: 6 N + 12 layers H W L per token (Chowdhery
et al. 2022, Appendix B: a forward pass is a third of it, attention is counted whole). Memory of a
training state is 16 bytes per parameter: weight, gradient and AdamW's two moments in float32
(Rajbhandari et al. 2020, Section 3). Activations are the tensors that the backward pass of
`model.transformer` reads: per token and block 4 D of the stream and its norms, 8 D of the MLP, and
9 H W of the attention.

Shapes: K domains, L tokens of a row, D model width, H heads, W head width, V vocabulary: pieces of
the tokenizer, which the model rounds up.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import Any

from pipeline import settings
from pipeline.planning import methods
from pipeline.runtime import accelerators
from pipeline.runtime.accelerators import Accelerator
from pipeline.tasks.evaluation_settings import Choice, FewShot

Settings = Mapping[str, Any]
"""Content of a run's run.json (`values`), evaluation.json or probe.json.

Beside it `vocabulary` are the pieces of its tokenizer."""

FLOAT = 4
"""Bytes of a number in float32."""
NUMBER = {"float32": 4, "bfloat16": 2}
CHUNK_LOGITS = 2**25
"""Logits that the loss makes at a time, unless a sixteenth of the batch is more."""
PROCESS_BYTES = {"cpu": 700 * 2**20, "accelerator": 4 * 2**30}
"""Host memory of a process with torch and its libraries."""
RECORD_BYTES = 60
"""Disk that one row of a record takes, parts and joined table together."""
TABLES_BYTES, WINDOW_BYTES = 2**14, 16
"""Disk of an evaluated checkpoint's tables without rows, and of the documents of one window."""
PROBE_BYTES = 2**20
"""Disk of one probe."""
HEADROOM = 1.25
"""Over the formulas: the allocator's gaps, buffers of libraries."""
MOST_MEMORY = 3
"""Times its memory that a job asks for at most: tries also count the slices of a time limit."""


@dataclasses.dataclass(frozen=True)
class JobEstimate:
    """What one job of the workflow takes."""

    seconds: float
    """Wall time on its devices and threads."""
    host_bytes: int
    """Memory of all processes; on a CPU, the device's is part of it."""
    disk_bytes: int
    devices: int = 0
    """Accelerators, or CPU cores in their place, that it trains or evaluates on."""
    threads: int = 1
    """Threads with which it takes so long; with fewer it takes longer."""

    def memory_mb(self, attempt: int) -> int:
        """Host memory, in MB, that the try of a number from 1 on asks for."""
        return min(attempt, MOST_MEMORY) * math.ceil(self.host_bytes / 1e6)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingEstimate(JobEstimate):
    """What one run's training takes, on a process for each device.

    It has as many devices as were asked for, or as hold the training state and the activations of
    one row. On its disk are checkpoints and records, with the two checkpoints that lie there while
    one is written.
    """

    parameters: int
    flops: float
    """Of the whole training, measurements included."""
    device_bytes: int
    """Memory of each device, with headroom."""
    sharded: bool
    """Whether each keeps a part of the training state only."""
    recomputes: bool
    """Whether blocks are computed again in the backward pass: the recipe says so, or else the
    micro-batch does not fit."""
    fits: bool
    """Whether there is a way in which the micro-batch of the settings fits each of them."""


def training_flops_per_token(shape: settings.Model, vocabulary: int, length: int) -> float:
    """FLOPs of training on one token of a row of `length`: forward and backward."""
    return accelerators.training_flops_per_token(
        shape.parameter_count_without_gains(vocabulary), shape, length
    )


def activation_bytes(
    shape: settings.Model, length: int, precision: str = "float32", recomputes: bool = False
) -> int:
    """Bytes that the backward pass of one row reads, the loss's own apart.

    The stream stays in float32. Where blocks are computed again in the backward pass
    (`recomputes`), one block's inner values are there at a time, and the input of every block.
    """
    inner = shape.heads * shape.head_width
    block = FLOAT * 2 * shape.width + NUMBER[precision] * (10 * shape.width + 9 * inner)
    ends = FLOAT * 2 * shape.width
    if recomputes:
        return length * (FLOAT * shape.layers * shape.width + block + ends)
    return length * (shape.layers * block + ends)


def peak_logit_bytes(shape: settings.Model, vocabulary: int, tokens: int) -> int:
    """Bytes of the logits that a pass over so many tokens has at a time, at most."""
    every = tokens * shape.padded_vocabulary(vocabulary)
    return FLOAT * min(every, max(CHUNK_LOGITS, every // 16))


def training_state_bytes(values: Settings, parameters: int) -> int:
    """Bytes of weights, gradients and moments, and of what the method keeps beside them."""
    needs, K = methods.run_needs_unless_custom_rule(values), len(values["domains"])
    numbers = 4 + bool(needs.statistics) + needs.reference
    numbers += K * needs.has_inner_products() + 2 * K * needs.moments_per_domain
    return FLOAT * numbers * parameters


def measured_batches_per_training_step(values: Settings, gradient_cost: float) -> float:
    """Batches that a training step reads for measuring beside its own, mean over the steps.

    What is read for losses alone counts once, what is read for gradients `gradient_cost` times.
    """
    needs, recipe, result = methods.run_needs_unless_custom_rule(values), values["training"], 0.0
    batches = len(values["domains"]) / recipe["rows"]
    if needs.statistics and needs.statistics.fresh:
        each = gradient_cost * max(1.0, needs.statistics.rows * batches)
        result += needs.statistics.estimates * each / needs.statistics.every
    if needs.validation:
        result += needs.validation.rows * batches / needs.validation.every
    if every := recipe.get("validation_every"):
        result += len(values["domains"]) / every
    return result


def forward_passes_per_training_step(values: Settings) -> float:
    """Forward passes over a batch that a step costs: 3 of Mix, a backward pass being two."""
    needs = methods.run_needs_unless_custom_rule(values)
    result = 3.0 + needs.weighs_losses + needs.losses_after + 2 * needs.reference
    result += measured_batches_per_training_step(values, gradient_cost=3)
    return result + bool(values["training"].get("activation_checkpointing"))


def estimate_training(
    values: Settings, vocabulary: int, device: Accelerator, processes: int = 1
) -> TrainingEstimate:
    """What one run's training takes on a kind of device.

    What does not fit as the recipe says is divided over the devices, or else computes blocks again,
    or both: the first way that fits. A model of transformers is trained as the recipe says alone.
    So many `processes` are asked to train it together: its model may need more, and what
    `inputs.refuse_untrainable` does not let them share takes fewer.
    """
    shape, recipe = settings.Model(**values["model"]), values["training"]
    precision = recipe.get("precision", settings.Training.precision)
    N, rows, length = shape.parameter_count(vocabulary), recipe["rows"], recipe["length"]
    microbatch = recipe.get("microbatch_rows") or rows
    own = bool(recipe.get("activation_checkpointing"))
    state = HEADROOM * training_state_bytes(values, N)
    whole_embedding = 2 * FLOAT * shape.padded_vocabulary(vocabulary) * shape.width

    def pass_bytes(of_rows: int, recomputes: bool) -> float:
        row = activation_bytes(shape, length, precision, recomputes)
        chunk = peak_logit_bytes(shape, vocabulary, of_rows * length)
        return HEADROOM * (whole_embedding + of_rows * row + chunk)

    several = microbatch < rows and not device.is_tpu
    keeps = several and accelerators.can_keep_whole_gradient(N, device.memory_bytes)
    kept = HEADROOM * FLOAT * N if keeps else 0.0
    room = device.memory_bytes - pass_bytes(1, own)
    is_own = not shape.architecture
    needed = math.ceil(state / (room - kept)) if state > room > kept and is_own else 1
    devices = min(max(needed, processes), rows)
    own_rows = min(microbatch, math.ceil(rows / devices))
    for recomputes, sharded in itertools.product((own, own or is_own), (needed > 1, is_own)):
        sharded = sharded and devices > 1
        each = pass_bytes(own_rows, recomputes) + (kept + state / devices if sharded else state)
        if fits := not device.memory_bytes or each <= device.memory_bytes:
            break
    made = forward_passes_per_training_step(values) + (recomputes and not own)
    flops = training_flops_per_token(shape, vocabulary, length) * rows * length * made / 3
    speed = device.peak_flops[precision] * device.utilisation * devices
    step = max(flops / speed, device.step_seconds * made / 3)
    saved, of_cpu = 12 * N, PROCESS_BYTES["cpu"] + int(each)
    return TrainingEstimate(
        parameters=N,
        flops=flops * recipe["steps"],
        device_bytes=int(each),
        host_bytes=devices * (PROCESS_BYTES["accelerator"] if device.memory_bytes else of_cpu)
        + saved,
        disk_bytes=(checkpoint_count(values) + 2) * saved + all_step_records_bytes(values),
        seconds=step * recipe["steps"],
        devices=devices,
        sharded=sharded,
        recomputes=recomputes,
        fits=fits and devices <= (device.most_together or devices),
    )


def checkpoint_count(values: Settings) -> int:
    """Checkpoints that a run keeps: the initial one, one every so many steps, and the last."""
    steps, every = values["training"]["steps"], values["training"]["checkpoint_every"]
    return 1 + math.ceil(steps / every)


def all_step_records_bytes(values: Settings) -> int:
    """Bytes of the records of a run's steps."""
    return RECORD_BYTES * values["training"]["steps"] * (1 + 2 * len(values["domains"]))


def estimate_evaluation(
    values: Settings, vocabulary: int, evaluation: Settings, device: Accelerator
) -> JobEstimate:
    """What a run's evaluation takes: forward passes over rows and prompts.

    A downstream task counts as `items` prompts of a whole row (3,000 where it says nothing), which
    bounds it from above for prompts with demonstrations.
    """
    shape, length = settings.Model(**values["model"]), values["training"]["length"]
    domains = evaluation.get("domains") or values["domains"]
    windows, own = evaluation["rows"] * len(domains), 0
    asked = sum(one.get("items") or 3000 for one in evaluation.get("tasks", []))
    tokens = ((1 + bool(evaluation.get("search"))) * windows + asked) * length
    for key, kind in (("choice", Choice), ("few_shot", FewShot)):
        if asked_of := evaluation.get(key):
            choice = kind(**asked_of)
            each = choice.question_and_answer_tokens + choice.distractors * choice.candidate
            own += choice.items * len(domains)
            tokens += choice.items * len(domains) * each
    flops = tokens * training_flops_per_token(shape, vocabulary, length) / 3
    batch = evaluation["batch_tokens"]
    inner = FLOAT * batch * 12 * shape.width + peak_logit_bytes(shape, vocabulary, batch)
    times = _count_checkpoints_to_read(values, evaluation["checkpoints"])
    kept = FLOAT * windows * length if evaluation.get("token_losses") else 0
    disk = TABLES_BYTES + WINDOW_BYTES * windows + RECORD_BYTES * (asked + own) + kept
    host = _host_process_bytes(shape.parameter_count(vocabulary), HEADROOM * inner, device)
    return JobEstimate(times * _computation_seconds(flops, values, device), host, times * disk, 1)


def estimate_probe(
    values: Settings, vocabulary: int, probe: Settings, device: Accelerator
) -> JobEstimate:
    """What a run's probe takes: K gradients at every checkpoint that it reads."""
    shape, length = settings.Model(**values["model"]), values["training"]["length"]
    K, N = len(values["domains"]), shape.parameter_count(vocabulary)
    flops = probe["rows"] * K * length * training_flops_per_token(shape, vocabulary, length)
    inner = probe["microbatch"] * activation_bytes(shape, length)
    inner += peak_logit_bytes(shape, vocabulary, probe["microbatch"] * length)
    inner += FLOAT * N * (3 + 2 * K)
    times = _count_checkpoints_to_read(values, probe["checkpoints"])
    seconds = times * _computation_seconds(flops, values, device)
    return JobEstimate(seconds, _host_process_bytes(N, HEADROOM * inner, device), PROBE_BYTES, 1)


def _host_process_bytes(N: int, inner: float, device: Accelerator) -> int:
    """Host memory of a process that has a model and, on a CPU, all else beside it."""
    if device.memory_bytes:
        return PROCESS_BYTES["accelerator"] + FLOAT * N
    return PROCESS_BYTES["cpu"] + FLOAT * N + int(inner)


def _count_checkpoints_to_read(values: Settings, chosen: str) -> int:
    """How many checkpoints an evaluation or a probe reads: all, or the last."""
    return checkpoint_count(values) if chosen == "all" else 1


def _computation_seconds(flops: float, values: Settings, device: Accelerator) -> float:
    precision = values["training"].get("precision", settings.Training.precision)
    return flops / (device.peak_flops[precision] * device.utilisation)
