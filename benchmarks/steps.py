"""Training steps of any mixing rule, as `training.train` takes them, and the tensors they make.

Shapes: K domains, R rows kept of each, B rows, L tokens of context.
"""

import dataclasses
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks import measure
from pike_mixing import method_registry
from pike_mixing.arrays import Ints
from pike_mixing.interface import RunFacts
from pike_mixing.torch.engine import Engine
from pike_mixing.torch.step_gradient import StepGradient
from pike_mixing.torch.step_rows import DealtRows
from pipeline import settings
from pipeline.model import adamw
from pipeline.model.pipeline_passes import PipelinePasses
from pipeline.model.transformer import initial_model


class Size(NamedTuple):
    model: settings.Model
    vocabulary: int
    rows: int
    length: int
    rounds: int
    measured_by: int = 2
    """Rows per backward pass where gradient statistics are measured."""

    def described(self) -> dict[str, Any]:
        return {**self._asdict(), "model": dataclasses.asdict(self.model)}

    def tokens(self) -> Tensor:
        """Random ones, the same at every call: [B, L + 1]."""
        random = torch.Generator().manual_seed(0)
        return torch.randint(self.vocabulary, (self.rows, self.length + 1), generator=random)


class Stepper:
    """One rule with its own model."""

    def __init__(
        self, rule: str, values: dict[str, Any], size: Size, K: int, microbatch: int | None = None
    ) -> None:
        names = tuple(f"domain {number}" for number in range(K))
        facts = RunFacts(
            tokens_by_domain=dict.fromkeys(names, 1e6),
            budget_tokens=1e6,
            mixture=dict.fromkeys(names, 1 / K),
        )
        self.size = size
        self.method = method_registry.build_method(rule, values, f"benchmark: {rule}").for_run(
            facts
        )
        self.needs = self.method.needs()
        self.model = initial_model(size.model, size.vocabulary, 0)
        recipe = measure.steady(size.rows, size.length)
        self.optimizer: torch.optim.Optimizer = (
            adamw.build_per_domain_adamw(self.model, recipe, K)
            if self.needs.moments_per_domain
            else adamw.build_adamw(self.model, recipe)
        )
        reference = None
        if self.needs.reference:
            reference = initial_model(size.model, size.vocabulary, 1).requires_grad_(False).eval()
        gradient = StepGradient(
            self.model,
            PipelinePasses(self.model, reference),
            micro_batch_rows=microbatch or size.rows,
            statistics_micro_batch_rows=size.measured_by,
            optimizer=self.optimizer,
            max_norm=recipe.clip_norm,
        )
        self.domains, self.batch_rows, self.seed = names, size.rows, 0
        self.engine = Engine(self.method, self, gradient)
        # Rows enough for a batch or an estimate of any one domain.
        shape = (K, 2 * size.rows, size.length + 1)
        random = torch.Generator().manual_seed(0)
        self.rows_KxRxL1 = torch.randint(size.vocabulary, shape, generator=random)

    def draw_rows(self, purpose: str, positions_K: Ints, count_K: Ints) -> DealtRows:
        """As many rows of each domain, the same at every step."""
        rows = [rows_RxL1[:n] for rows_RxL1, n in zip(self.rows_KxRxL1, count_K, strict=True)]
        gradient = self.engine.gradient
        return DealtRows(gradient.passes, torch.cat(rows), count_K, gradient.micro_batch_rows)

    def step(self, step: int) -> None:
        self.engine.step = step
        self.engine.measure_and_observe_before_step()
        self.method.weights(self.engine.state, step)
        left = self.engine.backward()
        self.optimizer.step()
        self.engine.observe_and_end_step(left)


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
