"""Settings of a model, of its training and of a run: what a `run.json` holds."""

import dataclasses
import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pike_mixing.alarms import AlarmLimits
from pike_mixing.setting_limits import (
    Limits,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)

if TYPE_CHECKING:
    from pike_mixing.interface import StatisticsNeed

HUB_ID = r"([A-Za-z0-9]([\w.-]*[A-Za-z0-9_])?/)?[A-Za-z0-9]([\w.-]*[A-Za-z0-9_])?"
"""An id on the Hugging Face Hub: owner/name, or a name alone."""


def hub_id_problem(name: str) -> str | None:
    """Why a text is no id on the Hugging Face Hub; None when it may be one."""
    if re.fullmatch(HUB_ID, name, re.ASCII) and len(name) <= 96 and not re.search(r"--|\.\.", name):
        return None
    page = re.search(rf"huggingface\.co/(?:datasets/)?({HUB_ID})", name, re.ASCII)
    # An address goes on behind the id: /tree/main, /resolve/main/FILE, ?query.
    advice = f"write {page[1]}" if page else "write owner/name, as the top of its page has it"
    return f"{name!r} is not an id on the Hugging Face Hub: {advice}"


HubId = Annotated[str, Limits(judge=hub_id_problem)]
Commit = Annotated[str, Limits(pattern="[0-9a-f]{40}", means="a commit of 40 hex digits")]
Sha256 = Annotated[str, Limits(pattern="[0-9a-fA-F]{64}", means="a SHA-256 of 64 hex digits")]
Decay = Annotated[float, Limits(at_least=0, below=1)]
"""Of a moment: 0 forgets at once."""

DEVICES = ("auto", "cpu", "cuda", "xla")
"""Kinds of devices. A TPU is of kind `xla`, and so is whatever else PJRT_DEVICE names."""

GRID = "grid"
"""What stands in a finder's place where other runs find settings, not a mixture."""
MOST_PARAMETERS = 10**13
"""Of a model: their states take 160 TB."""
MLP_RATIO = 4
"""Width of a block's MLP over the model's width."""


@dataclasses.dataclass(frozen=True)
class Model:
    """Shape of a decoder (Table `tab:archictectures`)."""

    layers: PositiveInt
    """Number of transformer blocks."""
    width: PositiveInt
    """Model width D, the paper's hidden dim."""
    heads: PositiveInt
    """Attention heads per block."""
    head_width: Annotated[int, Limits(at_least=2, multiple_of=2)]
    """Width of one attention head; rotary positions need an even one."""
    vocabulary_multiple: PositiveInt = 128
    """The embedding has the tokenizer's size rounded up to a multiple of this."""
    activation: Literal["gelu", "gelu-tanh"] = "gelu"
    """Of the MLP: GELU as it is defined, or its approximation by tanh, which JAX's `gelu` is."""
    initial_weights: Literal["scaled-normal", "xavier-uniform"] = "scaled-normal"
    """Of matrices: normal with variance 1 / fan-in, smaller where they write to the residual
    stream; or uniform by fan-in and fan-out, as in NanoDO."""
    transformers: Annotated[str, Limits(filled=True)] | None = None
    """Folder or `config.json` of a causal model of transformers, which is trained in place of the
    paper's decoder. `layers`, `width`, `heads` and `head_width` then price it: they are read from
    the file, unless they are given."""
    continued: bool = False
    """Whether training goes on from the folder's weights, with their own tokenizer."""
    architecture: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Content of that `config.json`; a plan reads it."""
    weights_sha256: str | None = None
    """Digest of those weights; a plan computes it."""

    def problems(self) -> list[str]:
        """Weights that lie nowhere, settings of another model, a size that no machine holds."""
        result = []
        if self.transformers is not None:
            result += [
                f"{name}: a model of transformers has its own: leave it out"
                for name in ("activation", "initial_weights")
                if getattr(self, name) != getattr(Model, name)
            ]
        if self.continued and self.transformers is None:
            result.append(
                "continued: nothing to go on from: name the folder of the weights, transformers"
            )
        if (numbers := self.parameter_count(1)) > MOST_PARAMETERS:
            result.append(
                f"layers: {self.layers:,} of width {self.width:,} and {self.heads:,} heads of "
                f"width {self.head_width:,} are {numbers:.1e} parameters, of which no machine "
                f"holds more than {MOST_PARAMETERS:.0e}: lower them"
            )
        return result

    @property
    def weights_folder(self) -> str | None:
        """Folder of the weights that training goes on from."""
        return self.transformers if self.continued else None

    def parameter_count_without_gains(self, pieces: int) -> int:
        """Numbers of the decoder's matrices over so many pieces."""
        block = 4 * self.heads * self.head_width * self.width + 2 * MLP_RATIO * self.width**2
        return self.layers * block + self.padded_vocabulary(pieces) * self.width

    def parameter_count(self, pieces: int) -> int:
        """Numbers of the decoder over so many pieces: its matrices and gains."""
        gains = 2 * self.width + 2 * self.head_width
        return self.parameter_count_without_gains(pieces) + self.layers * gains + self.width

    def padded_vocabulary(self, pieces: int) -> int:
        """Rows of the embedding: 250,100 pieces and a multiple of 128 give the 250,112 of mT5."""
        if self.continued:
            return max(pieces, int(self.architecture.get("vocab_size", 0)))
        return math.ceil(pieces / self.vocabulary_multiple) * self.vocabulary_multiple


@dataclasses.dataclass(frozen=True)
class Training:
    """One training recipe (Table `tab:hyperparameters`)."""

    rows: PositiveInt
    """Batch size b: rows (packed sequences) per step."""
    length: PositiveInt
    """Context length L in tokens."""
    steps: PositiveInt
    """Optimizer updates."""
    warmup_steps: NonNegativeInt
    """Steps of linear warm-up from the initial to the peak learning rate."""
    peak_learning_rate: PositiveFloat
    """Learning rate after warm-up."""
    initial_learning_rate: NonNegativeFloat
    """Learning rate at step 0."""
    final_learning_rate: NonNegativeFloat
    """Learning rate at the last step, reached linearly from the peak."""
    checkpoint_every: PositiveInt
    """Steps between checkpoints that are kept for evaluation; the last step is always kept."""
    resume_every: PositiveInt
    """Steps between checkpoints that only serve to go on after an interruption."""
    resume_keep: PositiveInt = 1
    """How many of the newest checkpoints stay to go on from, whatever their kind."""
    weight_decay: NonNegativeFloat = 0.1
    """AdamW's decoupled weight decay."""
    decayed: Literal["matrices", "all"] = "matrices"
    """Which weights decay: matrices and the embedding, or the gains of norms, too."""
    beta1: Decay = 0.95
    """AdamW's decay of the first moment."""
    beta2: Decay = 0.98
    """AdamW's decay of the second moment."""
    epsilon: PositiveFloat = 1e-8
    """AdamW's denominator offset."""
    clip_norm: PositiveFloat = 1.0
    """Gradients longer than this are shortened to it."""
    microbatch_rows: PositiveInt | None = None
    """Rows per backward pass; absent: the whole batch at once."""
    statistics_microbatch: PositiveInt = 1
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
    """How weights become whole rows: nearest at each step, or right on average over the steps; a
    rule with an `allocate` of its own decides itself."""
    max_epochs: PositiveFloat | None = None
    """Times that a domain's text may be read: a run that asks for more stops; absent: no limit."""
    validation_every: PositiveInt | None = None
    """Steps between looks at the loss of as many held-out rows of each domain as a batch has, for
    the alarm `worse`; absent: none."""
    alarms: AlarmLimits = dataclasses.field(default_factory=AlarmLimits)
    """When the run warns."""

    def problems(self) -> list[str]:
        """A warm-up that does not end."""
        if self.warmup_steps <= self.steps:
            return []
        return [f"warmup_steps: must lie between 0 and steps ({self.steps})"]

    def variance_problems(self, need: "StatisticsNeed | None", K: int) -> list[str]:
        """Reasons why batches of this recipe give no variance of every domain's gradient."""
        if need is None:
            return []
        result = []
        rows, setting = (need.rows, "rows") if need.fresh else (self.rows, "training.rows")
        if rows <= self.statistics_microbatch:
            result.append(
                f"it measures {rows} rows of a domain ({setting}) in micro-batches of "
                f"{self.statistics_microbatch} (training.statistics_microbatch), but a variance "
                "needs two: lower the latter"
            )
        if not need.fresh and self.rows < need.rows * K:
            result.append(
                f"batch: training measures the {self.rows} rows of a batch (training.rows), too "
                f"few for {need.rows} (rows) of each of {K} domains: raise training.rows, lower "
                "rows, or take batch: fresh"
            )
        return result


@dataclasses.dataclass(frozen=True)
class Run:
    """All that one pretraining run is a function of, beside its corpora and the code."""

    scenario: str
    """Name of the set of domains."""
    model_name: str
    """Name of the model's size."""
    method_name: str
    """Name under which the method and its settings are compared."""
    seed: NonNegativeInt
    """Seed of the initial weights, of the order of rows and of a method's draws."""
    domains: Annotated[tuple[str, ...], Limits(filled=True, distinct=True)]
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
    tuned: dict[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    """Settings that a grid's best run gives to the method, with those that it chooses from."""
