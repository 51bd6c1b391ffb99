"""Trainers that take the same steps: ours and its peers.

Each is made for a model's size and a batch, and then takes one step whenever it is called. A peer
whose loop is its own (`Loop`) runs it in a thread, which waits before each step until it is called.

Peers are modules of their own, because their packages may not be there: `by_transformers`,
`by_lightning` and `by_litgpt`.
"""

import importlib
import importlib.util
import threading
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from benchmarks.recipe import steady
from pike_mixing import registry
from pipeline import settings
from pipeline.model import adamw
from pipeline.model.backward import Batch, GradientComputer
from pipeline.model.transformer import initialised, parameter_count
from pipeline.runtime import devices

RATE, DECAY, CLIP = 1e-4, 0.1, 1.0
MANY = 100_000
"""Steps that no benchmark takes."""


class Size(NamedTuple):
    """A model and its batch."""

    model: settings.Model
    vocabulary: int
    rows: int
    length: int
    rounds: int
    """In which every trainer takes a step."""


SIZES = {
    "nano": Size(settings.Model(2, 64, 2, 32), 2048, 8, 64, 15),
    "small": Size(settings.Model(4, 256, 4, 64), 4096, 8, 256, 15),
    "base": Size(settings.Model(12, 768, 12, 64), 32_128, 1, 1024, 5),
}


class Trainer(NamedTuple):
    """What takes steps."""

    step: Callable[[], None]
    parameters: int


class Loop:
    """A loop of somebody else's, let go on for one step at a time.

    It runs in a thread of its own and calls `pause` before each step. The C library is to have one
    arena for all threads (`one_arena`), or the loop would pay for memory that ours does not.
    """

    def __init__(self, run: Callable[[Callable[[], None]], None]) -> None:
        """Starts `run`, which gets `pause`, and waits until it is about to take its first step."""
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        threads = torch.get_num_threads()

        def loop() -> None:
            torch.set_num_threads(threads)
            run(self.pause)

        self._thread = threading.Thread(target=loop, daemon=True)
        self._thread.start()
        self._wait()

    def pause(self) -> None:
        """Waits to be called."""
        self._done.release()
        self._go.acquire()

    def step(self) -> None:
        """Takes one step, and whatever the loop does between steps."""
        self._go.release()
        self._wait()

    def _wait(self) -> None:
        while not self._done.acquire(timeout=1):
            if not self._thread.is_alive():
                raise SystemExit("a peer's loop ended before its time: see above")


class Endless(Dataset[dict[str, Tensor]]):
    """A batch's rows again and again, as a data set in which no epoch ends."""

    def __init__(self, tokens_BxL: Tensor) -> None:
        self.tokens_BxL = tokens_BxL

    def __len__(self) -> int:
        return MANY * len(self.tokens_BxL)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        row_L = self.tokens_BxL[index % len(self.tokens_BxL)]
        return {"input_ids": row_L, "labels": row_L}


def ours(size: Size, tokens_BxL1: Tensor, *, compiled: bool = False) -> Trainer:
    """Steps as `pike pretrain` takes them."""
    recipe = steady(size.rows, size.length, RATE, compile=compiled)
    if compiled:
        devices.keep_compilations()
    net = initialised(size.model, size.vocabulary, 0).configure(recipe)
    optimizer = adamw.adamw(net, recipe)
    passing = GradientComputer(net, optimizer, CLIP, size.rows)
    method = registry.build("mix", {}, "benchmark")
    state, count_K = method.init(("all",), 0), torch.tensor([size.rows])

    def step() -> None:
        passing.compute_gradients(method, state, 0, Batch(tokens_BxL1, count_K), None)
        optimizer.step()

    return Trainer(step, parameter_count(net))


def ours_compiled(size: Size, tokens_BxL1: Tensor) -> Trainer:
    """The same with `compile: true`."""
    return ours(size, tokens_BxL1, compiled=True)


Make = Callable[[Size, Tensor], Trainer]
OURS: dict[str, Make] = {"ours": ours, "ours compiled": ours_compiled}
PEERS = {
    "persimmon": ("transformers", "by_transformers", "persimmon"),
    "gpt2": ("transformers", "by_transformers", "gpt2"),
    "gpt2 Trainer": ("transformers", "by_transformers", "gpt2_by_trainer"),
    "llama": ("transformers", "by_transformers", "llama"),
    "gpt2 Lightning": ("lightning", "by_lightning", "gpt2"),
    "litgpt": ("litgpt", "by_litgpt", "eager"),
    "litgpt compiled": ("litgpt", "by_litgpt", "compiled"),
    "litgpt lean": ("litgpt", "by_litgpt", "lean"),
    "litgpt lean compiled": ("litgpt", "by_litgpt", "lean_compiled"),
}
"""Package, module here and its function."""
NAMES = (*OURS, *PEERS)


def missing(name: str) -> str | None:
    """The package that a trainer wants and that is not installed."""
    package = PEERS[name][0] if name in PEERS else None
    return package if package and importlib.util.find_spec(package) is None else None


def make(name: str, size: Size, tokens_BxL1: Tensor) -> Trainer:
    """A trainer by its name."""
    if name in OURS:
        return OURS[name](size, tokens_BxL1)
    _, module, function = PEERS[name]
    # Imported where it is wanted: not everybody has its package.
    found = importlib.import_module(f"benchmarks.{module}")
    trainer: Trainer = getattr(found, function)(size, tokens_BxL1)
    return trainer
