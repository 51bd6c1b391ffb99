"""Every rule with its settings, what it measures and what that costs: `pike methods`."""

import dataclasses
import inspect
import typing
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pike_mixing import RULES, registry
from pike_mixing.interface import MethodDefaults, Needs, StatisticsNeed
from pike_mixing.settings import is_required
from pike_mixing.settings_text import lines_of, settings_of, wrapped

FRAME = """\
# Mixing methods

<!-- Made by `pike methods --format markdown`, kept by `make docs`. What a line says stands in the
docstrings and the `about` of the rule's class in pike_mixing/rules/: change it there. -->

Every rule that a configuration can name under `methods:`. `pike methods NAME` prints a rule's
formula, settings and source; they stand in its module, to which its name leads.

- **measures**: what the training loop measures for the rule.
- **work**, **memory**: what the rule needs more than mix. K is the number of domains, b the rows of
  a batch. The rules' own arithmetic, on K numbers or K x K, costs little.
"""


class Cost(NamedTuple):
    """One thing that is measured for a rule."""

    measured: str
    work: str = ""
    """What it adds to a step of Mix."""
    memory: str = ""
    """What it adds to Mix's memory."""


K_PASSES = "K backward passes instead of one"
COSTS = {
    "losses": Cost("losses of the batch"),
    "statistics": Cost(
        "gradient statistics",
        "backward passes over {rows} of each domain, every {steps}",
        "a gradient, while it measures",
    ),
    "weighs_losses": Cost(
        "losses of the batch before the backward pass", "a forward pass before the backward one"
    ),
    "losses_after": Cost("losses of the batch after the update", "a forward pass after the update"),
    "gramian": Cost("all gradients' inner products", K_PASSES, "K gradients"),
    "reference": Cost(
        "excess of the losses over a reference model's",
        "two forward passes, the model's and the reference's",
        "a frozen model",
    ),
    "validation": Cost(
        "losses on rows of comparison", "forward passes over {rows} of each domain, every {steps}"
    ),
    "moments_per_domain": Cost(
        "an optimizer step of each domain", K_PASSES, "2 K moments instead of 2"
    ),
}
"""What each field of `Needs` costs."""


def methods(name: str | None = None, *, format: str = "text") -> str:
    """The rules as text for a terminal, or in Markdown: all of them are the page docs/methods.md.

    Args:
        name: One rule alone; all of `RULES` when absent.
        format: text or markdown.

    Raises:
        InputError: there is no such rule.
    """
    chosen = list(RULES) if name is None else [name]
    if format == "text":
        return "\n\n\n".join(_text(rule) for rule in chosen)
    if name is not None:
        return _section(name)
    return f"{FRAME}\n{_overview(chosen)}"


def costs(needs: Needs) -> list[Cost]:
    """What a method's needs cost, each with its place in the training loop."""
    return [
        Cost(cost.measured, cost.work.format(**_due(need)), cost.memory)
        for name, cost in COSTS.items()
        if (need := getattr(needs, name))
    ]


def _due(need: Any) -> dict[str, str]:
    """Rows and steps of what is measured now and then."""
    if need is True:
        return {}
    rows = f"{need.rows} rows"
    if isinstance(need, StatisticsNeed):
        rows = f"max({need.rows}, b_k) fresh rows" if need.fresh else "the batch's rows"
    return {"rows": rows, "steps": "step" if need.every == 1 else f"{need.every} steps"}


def needs(rule: str) -> Needs:
    """What a rule asks for with the defaults of its settings.

    Settings without a default are coefficients and names, on which no need depends.
    """
    kind = registry.kind(rule)
    if kind.needs is MethodDefaults.needs:
        return Needs()
    asked: Needs = kind(**required(rule)).needs()
    return asked


def required(rule: str) -> dict[str, Any]:
    """Some value for each setting that has no default."""
    kind = registry.kind(rule)
    hints = typing.get_type_hints(kind)
    return {f.name: _any(hints[f.name]) for f in dataclasses.fields(kind) if is_required(f)}


def _any(kind: Any) -> Any:
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    examples: dict[Any, Any] = {float: 1.0, int: 1, str: "", bool: False, dict: {}, tuple: ()}
    return examples.get(get_origin(kind) or kind)


def _columns(rule: str) -> tuple[str, str, str]:
    """What a rule measures, what it adds to the work and to the memory of Mix."""
    parts = ([getattr(cost, part) for cost in costs(needs(rule))] for part in Cost._fields)
    measured, work, memory = ("; ".join(filter(None, words)) or "nothing" for words in parts)
    return measured, work, memory


def _about(rule: str) -> str:
    said: str = getattr(registry.kind(rule), "about", "")
    return said


def _source(rule: str) -> str:
    return inspect.getdoc(inspect.getmodule(registry.kind(rule))) or ""


def _text(rule: str) -> str:
    measured, work, memory = _columns(rule)
    kind = registry.kind(rule)
    settings = lines_of(kind)
    lines = [rule, *wrapped(_about(rule), "  "), "", "  settings" + ("" if settings else ": none")]
    lines += settings
    lines.append("")
    named = {
        "measures": measured,
        "more work": work,
        "more memory": memory,
        "source": " ".join(_source(rule).split()),
        "code": RULES.get(rule, rule),
    }
    for label, words in named.items():
        lines += wrapped(words, " " * 15, f"  {label:<13}")
    return "\n".join(lines)


def _overview(chosen: Sequence[str]) -> str:
    lines = [
        "| rule | what it does | measures | work | memory |",
        "| --- | --- | --- | --- | --- |",
    ]
    for rule in chosen:
        place = RULES[rule].partition(":")[0].replace(".", "/")
        cells = [f"[{rule}](../{place}.py)", _escaped(_about(rule)), *_columns(rule)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _section(rule: str) -> str:
    """One rule in Markdown."""
    measured, work, memory = _columns(rule)
    formula = inspect.getdoc(registry.kind(rule)) or ""
    parts = [f"## {rule}", _escaped(_about(rule)), _escaped(formula)]
    settings = list(settings_of(registry.kind(rule)))
    if settings:
        rows = ["| setting | default | meaning |", "| --- | --- | --- |"]
        for name, default, meaning in settings:
            shown = "required" if default is None else f"`{default}`"
            rows.append(f"| `{name}` | {shown} | {_escaped(meaning)} |")
        parts.append("\n".join(rows))
    else:
        parts.append("No settings.")
    parts.append(f"Measures: {measured}. More work than mix: {work}. More memory: {memory}.")
    parts.append(f"Source: {_escaped(_source(rule))} Code: `{RULES.get(rule, rule)}`.")
    return "\n\n".join(parts)


def _escaped(text: str) -> str:
    """A docstring as Markdown: its paragraphs on one line each, stars and bars as they are."""
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    return "\n\n".join(paragraphs).replace("*", r"\*").replace("|", r"\|")
