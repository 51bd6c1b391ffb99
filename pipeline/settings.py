"""Settings of one piece of work: frozen dataclasses, parsed once, all bad keys reported."""

import dataclasses
import difflib
import math
import re
import sys
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from pipeline.errors import InputError

T = TypeVar("T")

WIDEST = 2**63 - 1
"""The greatest whole number that a setting can be: the database has 64 bits for it."""


def mapping(values: Any, where: str) -> Mapping[str, Any]:
    """The values themselves, where their names are looked up before they are parsed.

    Raises:
        InputError: they are a list, a text or nothing.
    """
    if not isinstance(values, Mapping):
        raise InputError(f"{where}: {unfit(values, Mapping)}")
    return values


def parse(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Builds the frozen dataclass `kind` from plain values.

    Args:
        kind: A dataclass; a `problems(self) -> list[str]` method may check values further.
        values: Plain JSON values by field name.
        where: Where the values were set, for messages: "config.yaml: methods.pike".

    Raises:
        InputError: unknown, missing, ill-typed or unreasonable values: all of them in one message.
    """
    problems = check(kind, values, where)
    if problems:
        raise InputError("\n".join(problems))
    return _build(kind, values)


def check(kind: type[Any], values: Mapping[str, Any], where: str) -> list[str]:
    """Every reason why `values` do not make a `kind`; an empty list when they do."""
    if not isinstance(values, Mapping):
        return [f"{where}: {unfit(values, Mapping)}"]
    fields = {f.name: f for f in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    problems = [unknown(name, fields, where) for name in values if name not in fields]
    for name, field in fields.items():
        if name in values:
            problems += _mismatch(values[name], hints[name], f"{where}.{name}")
        elif _required(field):
            meaning = field.metadata.get("meaning") or _described(hints[name])
            problems.append(f"{where}: {name} is missing: {meaning}")
    if not problems and hasattr(kind, "problems"):
        try:
            problems += [f"{where}.{problem}" for problem in _build(kind, values).problems()]
        except InputError as error:
            # A `Judged` says where its settings are with its own name.
            lines = str(error).splitlines()
            problems += [f"{where}{line.removeprefix(kind.__name__)}" for line in lines]
    return problems


class Judged:
    """A dataclass whose settings are judged when it is made, whoever makes it."""

    def problems(self) -> list[str]:
        """Reasons why the settings are unreasonable, each beginning with the setting's name."""
        return []

    def __post_init__(self) -> None:
        """Judges types, then what `problems` says.

        Raises:
            InputError: a setting is of the wrong type or unreasonable: all of them in one message.
        """
        kind = type(self)
        hints = typing.get_type_hints(kind)
        names = [f.name for f in dataclasses.fields(self)]  # type: ignore[arg-type]
        found = [p for n in names for p in _mismatch(getattr(self, n), hints[n], f".{n}")]
        found = found or [f".{problem}" for problem in self.problems()]
        if found:
            raise InputError("\n".join(f"{kind.__name__}{problem}" for problem in found))


def unknown(name: str, known: typing.Iterable[str], where: str) -> str:
    """Message for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    hint = _nearest(name, names) or f"known: {', '.join(names)}"
    return f"{where}: {name!r} is unknown: {hint}"


def _nearest(name: object, names: typing.Iterable[str]) -> str:
    lowered = {other.lower(): other for other in names}
    near = difflib.get_close_matches(str(name).lower(), lowered, n=1, cutoff=0.5)
    return f"did you mean {lowered[near[0]]!r}?" if near else ""


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


def misplaced(
    given: typing.Iterable[str], domains: typing.Collection[str], where: str, lacks: str
) -> list[str]:
    """Messages for values by domain that name no domain, and for domains without a value.

    Args:
        given: Domains that have a value.
        domains: Those that there are.
        where: Where the values were set.
        lacks: What is wrong with a domain without one: "has no weight".
    """
    found = [unknown(d, domains, where) for d in given if d not in domains]
    return found + [f"{where}: domain {d!r} {lacks}" for d in domains if d not in given]


def indivisible(values: Mapping[str, float] | None, where: str) -> list[str]:
    """Messages for numbers by domain that cannot be divided by their sum; none without numbers."""
    if values is None:
        return []
    found = [f"{where}.{d}: {v} is negative" for d, v in values.items() if v < 0]
    total = sum(values.values())
    if not total > 0:
        found.append(f"{where}: at least one must be positive")
    if total == math.inf:
        found.append(
            f"{where}: the sum is beyond what a float64 can hold: divide all by the largest"
        )
    return found


def _required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _build(kind: type[T], values: Mapping[str, Any]) -> T:
    hints = typing.get_type_hints(kind)
    return kind(**{name: _value(value, hints[name]) for name, value in values.items()})


def _value(value: Any, hint: Any) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _build(hint, value)
    if hint is float:
        return float(value)
    if get_origin(hint) is tuple:
        return tuple(_value(item, get_args(hint)[0]) for item in value)
    if get_origin(hint) in (dict, Mapping):
        return {name: _value(item, get_args(hint)[1]) for name, item in value.items()}
    if get_origin(hint) in (Union, types.UnionType) and value is not None:
        return _value(value, next(h for h in get_args(hint) if h is not type(None)))
    return value


def _mismatch(value: Any, hint: Any, where: str) -> list[str]:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return []
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return check(hint, value, where)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return []
        return _mismatch(value, next(h for h in inner if h is not type(None)), where)
    if origin is tuple and isinstance(value, list | tuple):
        return [p for i, v in enumerate(value) for p in _mismatch(v, inner[0], f"{where}[{i}]")]
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        names = [p for k in value for p in _mismatch(k, inner[0], f"{where}: the name")]
        return names + [p for k, v in value.items() for p in _mismatch(v, inner[1], f"{where}.{k}")]
    return [] if fits(value, hint) else [f"{where}: {unfit(value, hint)}"]


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of a type: no 8.0 is an int, no bool a number, no NaN a float."""
    if get_origin(hint) is Literal:
        return any(value == one and type(value) is type(one) for one in get_args(hint))
    if hint is int:
        return type(value) is int and -WIDEST <= value <= WIDEST
    if hint is float:
        return type(value) in (int, float) and abs(cast(float, value)) <= sys.float_info.max
    return isinstance(hint, type) and isinstance(value, hint)


def unfit(value: object, hint: Any) -> str:
    """Why a value is not of a type that it does not fit, and how to write it where that is known.

    Args:
        value: The value.
        hint: int, float, str, bool, a Literal, or a container.
    """
    if hint in (int, float) and isinstance(value, str) and (better := _unquoted(value, hint)):
        return f"{value!r} is a text in YAML: write {better}"
    if hint in (int, float) and type(value) is int:
        shown = value if abs(value) < 10**40 else "a number of more than 40 digits"
        return f"{shown} is out of range: whole numbers lie between -{WIDEST} and {WIDEST}"
    way_out = ""
    if isinstance(value, str) and get_origin(hint) is Literal:
        near = _nearest(value, map(str, get_args(hint)))
        way_out = f": {near}" if near else ""
    elif hint is int and isinstance(value, float) and value.is_integer():
        way_out = f": write {int(value)}"
    elif hint in (int, float) and isinstance(value, bool):
        way_out = " (YAML reads yes, no, on and off as true and false)"
    elif hint is str and not isinstance(value, Mapping | list | None):
        way_out = ": put it in quotes (YAML reads yes, no, on, off, numbers and dates as such)"
    return f"{value!r} is not {_described(hint)}{way_out}"


def _unquoted(value: str, hint: type) -> str | None:
    """How YAML wants a number that it takes for a text: 8 for "8", 1.0e-2 for 1e-2."""
    parts = re.fullmatch(r"([+-]?\d+)(\.\d*)?(?:[eE]([+-]?)(\d+))?", value.strip())
    number = float(value) if parts else math.inf
    if parts is None or not math.isfinite(number):
        return None
    if hint is int:
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else None
    whole, fraction, sign, power = parts.groups()
    if power is None:
        return value.strip()
    return f"{whole}{fraction or '.0'}e{sign or '+'}{power}"


def _described(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        return _described(next(h for h in get_args(hint) if h is not type(None)))
    if dataclasses.is_dataclass(hint):
        needed = [field.name for field in dataclasses.fields(hint) if _required(field)]
        return "a mapping" + (f" with {', '.join(needed)}" if needed else "")
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    names[type(None)] = "null"
    containers = {tuple: "a list", list: "a list", dict: "a mapping", Mapping: "a mapping"}
    plain = get_origin(hint) or hint
    return names.get(plain) or containers.get(plain) or f"of type {plain.__name__}"


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
    """When a run warns; `pipeline.alarms` says what each alarm means."""

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
    """The mixing method's name in `pipeline.mixing.METHODS`."""
    method: dict[str, Any]
    """The mixing method's settings."""

    def problems(self) -> list[str]:
        """Domains with which no run can be made."""
        twice = sorted({d for d in self.domains if self.domains.count(d) > 1})
        found = [f"domains: {d!r} is named twice" for d in twice]
        return found + ([] if self.domains else ["domains: name at least one"])
