"""Settings of a model, of its training and of a run: what a `run.json` holds."""

import dataclasses
import math
import re
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pike_mixing.interface import StatisticsNeed

HUB_ID = r"([A-Za-z0-9]([\w.-]*[A-Za-z0-9_])?/)?[A-Za-z0-9]([\w.-]*[A-Za-z0-9_])?"
"""An id on the Hugging Face Hub: owner/name, or a name alone."""


def not_on_hub(name: str) -> str | None:
    """Why a text is no id on the Hugging Face Hub; None when it may be one."""
    if re.fullmatch(HUB_ID, name, re.ASCII) and len(name) <= 96 and not re.search(r"--|\.\.", name):
        return None
    page = re.search(rf"huggingface\.co/(?:datasets/)?({HUB_ID})", name, re.ASCII)
    # An address goes on behind the id: /tree/main, /resolve/main/FILE, ?query.
    advice = f"write {page[1]}" if page else "write owner/name, as the top of its page has it"
    return f"{name!r} is not an id on the Hugging Face Hub: {advice}"


MLP_RATIO = 4
"""Width of a block's MLP over the model's width."""


@dataclasses.dataclass(frozen=True)
class Model:
    """Shape of a decoder (Table `tab:archictectures`)."""

    layers: int
    """Number of transformer blocks."""
    width: int
    """Model width D, the paper's hidden dim."""
    heads: int
    """Attention heads per block."""
    head_width: int
    """Width of one attention head; rotary positions need an even one."""
    vocabulary_multiple: int = 128
    """The embedding has the tokenizer's size rounded up to a multiple of this."""

    def padded_vocabulary(self, pieces: int) -> int:
        """Rows of the embedding: 250,100 pieces and a multiple of 128 give the 250,112 of mT5."""
        return math.ceil(pieces / self.vocabulary_multiple) * self.vocabulary_multiple

    def problems(self) -> list[str]:
        """Values that no model can have."""
        positive = [
            n
            for n in ("layers", "width", "heads", "head_width", "vocabulary_multiple")
            if getattr(self, n) < 1
        ]
        odd = ["head_width: rotary positions turn pairs, so it must be even"]
        return [f"{n}: must be at least 1" for n in positive] + (odd if self.head_width % 2 else [])


@dataclasses.dataclass(frozen=True)
class AlarmLimits:
    """When a run warns; `pipeline.training.alarms` says what each alarm means."""

    least_effective_domains: float = 1.5
    """Fewest effective domains exp(H(w)), H the entropy of a window's mean sampling weights."""
    epochs: float = 4.0
    """Times that a domain's text may be read; up to 4 harm little (arXiv 2305.16264)."""
    window: int = 100
    """Steps without a row of a domain, steps between looks at the weights, and steps in which a
    method is to move a row at least."""

    def problems(self) -> list[str]:
        """Limits that say nothing."""
        found = []
        if self.least_effective_domains < 0:
            found.append("least_effective_domains: must not be negative")
        if self.epochs <= 0:
            found.append("epochs: must be positive")
        if self.window < 1:
            found.append("window: must be at least 1")
        return found


@dataclasses.dataclass(frozen=True)
class Training:
    """One training recipe (Table `tab:hyperparameters`)."""

    rows: int
    """Batch size b: rows (packed sequences) per step."""
    length: int
    """Context length L in tokens."""
    steps: int
    """Optimizer updates."""
    warmup_steps: int
    """Steps of linear warm-up from the initial to the peak learning rate."""
    peak_learning_rate: float
    """Learning rate after warm-up."""
    initial_learning_rate: float
    """Learning rate at step 0."""
    final_learning_rate: float
    """Learning rate at the last step, reached linearly from the peak."""
    checkpoint_every: int
    """Steps between checkpoints that are kept for evaluation; the last step is always kept."""
    resume_every: int
    """Steps between checkpoints that only serve to go on after an interruption."""
    resume_keep: int = 1
    """How many of the newest checkpoints stay to go on from, whatever their kind."""
    weight_decay: float = 0.1
    """AdamW's decoupled weight decay."""
    beta1: float = 0.95
    """AdamW's decay of the first moment."""
    beta2: float = 0.98
    """AdamW's decay of the second moment."""
    epsilon: float = 1e-8
    """AdamW's denominator offset."""
    clip_norm: float = 1.0
    """Gradients longer than this are shortened to it."""
    microbatch_rows: int | None = None
    """Rows per backward pass; absent: the whole batch at once."""
    statistics_microbatch: int = 1
    """Rows per backward pass of the gradient statistics; the variance is over these groups."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """What matrices are multiplied in; weights, their gradients and all sums stay float32."""
    compile: bool = False
    """Whether the model's blocks are compiled: worth some minutes of waiting on a GPU."""
    activation_checkpointing: bool = False
    """Whether a block's inner values are made again in the backward pass, to save memory."""
    deterministic: bool = False
    """Whether a GPU is to make the same bits each time, as a CPU does anyway; slower."""
    rounding: Literal["largest-remainder", "systematic"] = "largest-remainder"
    """How weights become whole rows: nearest at each step, or right on average over the steps."""
    max_epochs: float | None = None
    """Times that a domain's text may be read: a run that asks for more stops; absent: no limit."""
    alarms: AlarmLimits = dataclasses.field(default_factory=AlarmLimits)
    """When the run warns."""

    def problems(self) -> list[str]:
        """Values with which no run can be made."""
        found = [
            f"{n}: must be at least 1"
            for n in (
                "rows",
                "length",
                "steps",
                "checkpoint_every",
                "resume_every",
                "resume_keep",
                "statistics_microbatch",
            )
            if getattr(self, n) < 1
        ]
        if not 0 <= self.warmup_steps <= self.steps:
            found.append(f"warmup_steps: must lie between 0 and steps ({self.steps})")
        if self.microbatch_rows is not None and self.microbatch_rows < 1:
            found.append("microbatch_rows: must be at least 1")
        if self.max_epochs is not None and self.max_epochs <= 0:
            found.append("max_epochs: must be positive")
        found += [
            f"{n}: must be positive"
            for n in ("peak_learning_rate", "clip_norm", "epsilon")
            if getattr(self, n) <= 0
        ]
        found += [
            f"{n}: must lie in [0, 1)" for n in ("beta1", "beta2") if not 0 <= getattr(self, n) < 1
        ]
        found += [
            f"{n}: must not be negative"
            for n in ("initial_learning_rate", "final_learning_rate", "weight_decay")
            if getattr(self, n) < 0
        ]
        return found

    def unmeasurable(self, need: "StatisticsNeed | None", K: int) -> list[str]:
        """Reasons why batches of this recipe give no variance of every domain's gradient."""
        if need is None:
            return []
        found = []
        rows, setting = (need.rows, "rows") if need.fresh else (self.rows, "training.rows")
        if rows <= self.statistics_microbatch:
            found.append(
                f"it measures {rows} rows of a domain ({setting}) in micro-batches of "
                f"{self.statistics_microbatch} (training.statistics_microbatch), but a variance "
                "needs two: lower the latter"
            )
        if not need.fresh and self.rows < need.rows * K:
            found.append(
                f"batch: training measures the {self.rows} rows of a batch (training.rows), too "
                f"few for {need.rows} (rows) of each of {K} domains: raise training.rows, lower "
                "rows, or take batch: fresh"
            )
        return found


@dataclasses.dataclass(frozen=True)
class Run:
    """All that one pretraining run is a function of, beside its corpora and the code."""

    scenario: str
    """Name of the set of domains."""
    model_name: str
    """Name of the model's size."""
    method_name: str
    """Name under which the method and its settings are compared."""
    seed: int
    """Seed of the initial weights, of the order of rows and of a method's draws."""
    domains: tuple[str, ...]
    """Names of the domains, in the order of every K-sized array."""
    tokenizer: str
    """Name of the tokenizer."""
    model: Model
    """The model's shape."""
    training: Training
    """The training recipe."""
    rule: str
    """The mixing method's name in `pike_mixing.METHODS`."""
    method: dict[str, Any]
    """The mixing method's settings."""

    def problems(self) -> list[str]:
        """Domains and seeds with which no run can be made."""
        twice = sorted({d for d in self.domains if self.domains.count(d) > 1})
        found = [f"domains: {d!r} is named twice" for d in twice]
        if self.seed < 0:
            found.append("seed: must not be negative")
        return found + ([] if self.domains else ["domains: name at least one"])
