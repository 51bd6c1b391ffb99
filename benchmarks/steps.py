"""Training steps of any mixing rule, as `training.train` takes them, and the tensors they make.

Shapes: K domains, R rows kept of each, B rows, L tokens of context.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks import measure
from pike_mixing import registry
from pike_mixing.arrays import Ints
from pike_mixing.interface import Facts, Signals
from pipeline import settings
from pipeline.model import adamw, gradients, per_domain_adamw
from pipeline.model.backward import Batch, GradientComputer
from pipeline.model.transformer import initialised


class Size(NamedTuple):
    """A model and its batch."""

    model: settings.Model
    vocabulary: int
    rows: int
    length: int
    rounds: int
    measured_by: int = 2
    """Rows per backward pass where gradient statistics are measured."""

    def described(self) -> dict[str, Any]:
        """For a record."""
        return {**self._asdict(), "model": dataclasses.asdict(self.model)}


class Stepper:
    """One rule with its own model."""

    def __init__(
        self, rule: str, values: dict[str, Any], size: Size, K: int, microbatch: int | None = None
    ) -> None:
        names = tuple(f"domain {number}" for number in range(K))
        facts = Facts(
            tokens_by_domain=dict.fromkeys(names, 1e6),
            budget_tokens=1e6,
            mixture=dict.fromkeys(names, 1 / K),
        )
        self.size = size
        self.method = registry.build(rule, values, f"benchmark: {rule}").informed(facts)
        self.needs, self.state = self.method.needs(), self.method.init(names, 0)
        self.model = initialised(size.model, size.vocabulary, 0)
        recipe = measure.steady(size.rows, size.length)
        self.optimizer: torch.optim.Optimizer = (
            per_domain_adamw.optimizer(self.model, recipe, K)
            if self.needs.moments_per_domain
            else adamw.adamw(self.model, recipe)
        )
        reference = None
        if self.needs.reference:
            reference = initialised(size.model, size.vocabulary, 1).requires_grad_(False).eval()
        self.microbatch = microbatch or size.rows
        self.backward = GradientComputer(
            self.model, self.optimizer, recipe.clip_norm, self.microbatch, reference
        )
        # Rows enough for a batch or an estimate of any one domain.
        shape = (K, 2 * size.rows, size.length + 1)
        random = torch.Generator().manual_seed(0)
        self.rows_KxRxL1 = torch.randint(size.vocabulary, shape, generator=random)

    def batch(self, count_K: Ints) -> Batch:
        """As many rows of each domain, the same at every step."""
        rows = [rows_RxL1[:n] for rows_RxL1, n in zip(self.rows_KxRxL1, count_K, strict=True)]
        return Batch(torch.cat(rows), count_K)

    def step(self, step: int) -> None:
        """One step as the training loop takes it."""
        need, compared = self.needs.statistics, self.needs.validation
        due = need is not None and need.due(step)
        if need is not None and due and need.fresh:
            self._estimate(step, need.rows)
        if compared is not None and compared.due(step):
            batch = self.batch(np.full(len(self.rows_KxRxL1), compared.rows))
            loss_K = batch.losses(self.model, self.microbatch)
            self._observe(Signals(step, self.size.rows, validation_loss_K=loss_K))
        self.method.weights(self.state, step)
        batch = self.batch(self.method.allocate(self.state, step, self.size.rows))
        measured_by = self.size.measured_by if need and due and not need.fresh else None
        seen = self.backward.compute_gradients(
            self.method, self.state, step, batch, measured_by
        ).seen
        self.optimizer.step()
        if self.needs.losses_after:
            seen = dataclasses.replace(seen, loss_after_K=batch.losses(self.model, self.microbatch))
        watches = self.needs.losses or self.needs.gramian or self.needs.losses_after
        if watches or seen.statistics is not None:
            self._observe(seen)

    def _estimate(self, step: int, least: int) -> None:
        """A method of its own, so that its rows are gone when the step's own pass begins."""
        count_K = self.method.allocate(self.state, step, self.size.rows).clip(min=least)
        domains = self.batch(count_K).by_domain()
        found = gradients.gradient_statistics(self.model, domains, self.size.measured_by)
        self._observe(Signals(step, self.size.rows, statistics=found))

    def _observe(self, seen: Signals) -> None:
        self.state = self.method.observe(self.state, seen)


class Live(TorchDispatchMode):
    """Follows the storages of all tensors that are made while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0
        """Bytes that lived at once at most."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operation and counts what lives after it."""
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                storage = leaf.untyped_storage()
                self.storages[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self.storages = {k: v for k, v in self.storages.items() if not v[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self.storages.values()))
        return out
