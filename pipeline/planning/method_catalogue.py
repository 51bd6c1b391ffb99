"""Every rule with its settings, what it measures and what that costs: `pike methods`."""

import dataclasses
import inspect
import typing
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pike_mixing import RULES, method_registry, method_trial, provenance
from pike_mixing.errors import InputError
from pike_mixing.finders import FINDERS
from pike_mixing.interface import Method, Needs, StatisticsNeed
from pike_mixing.setting_fields import is_required, setting_descriptions, setting_lines, wrap_text
from pipeline.runtime import output_formats

FRAME = """\
# Mixing methods

<!-- Made by `pike methods --format markdown`, kept by `make docs`. What a line says stands in the
docstrings and the `about` of the rule's class in pike_mixing/rules/: change it there. -->

Every rule that a configuration can name under `methods:`. `pike methods NAME` prints a rule's
formula, settings and source; they stand in its module, to which its name leads.

- **measures**: what the training loop measures for the rule.
- Below the rules stands where each comes from, and what differs here.
  Tests have updates worked by hand; adatask, doremi, famo, odm also numbers of their code.
- **work**, **memory**: what the rule needs more than mix. K is the number of domains, b the rows of
  a batch. The rules' own arithmetic, on K numbers or K x K, costs little.

`pike domains` clusters documents by TF-IDF, the first step of CLIMB (arXiv 2504.13161).
Missing: OP-Mix (2605.15220), which trains
low-rank adapters within a run; RegMix-D (2606.18663), Data Mixing Agent (2507.15640), not found;
CAMEL (2603.08022), formula not found; DeMix (2602.00747), FastMix (2606.14971), code read;
the laws of 2606.08167, code without licence.
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
        "gradient statistics{more}",
        "backward passes over {rows} of each domain, every {steps}",
        "{gradients}, while it measures",
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


def describe_methods(name: str | None = None, *, format: str = "text") -> str:
    """The rules, or the one of this name, as text for a terminal, Markdown or json.

    In Markdown all of them are the page docs/methods.md; json is a list with an object per rule.

    Raises:
        InputError: there is no such rule, one alone is asked for in Markdown, or a class of the
            user's own fails in a few steps of made-up signals.
    """
    chosen = list(RULES) if name is None else [name]
    if format == "markdown":
        if name is not None:
            raise InputError(f"--format markdown makes the page of all rules: leave {name} out")
        return f"{FRAME}\n{_overview_markdown_table()}\n{_provenance_section()}"
    tried = "" if name is None or name in RULES else _try_custom_rule_and_report(name)
    if format == "json":
        return output_formats.as_json([_rule_json(rule) for rule in chosen])
    return "\n\n\n".join(map(_rule_text, chosen)) + tried


def _try_custom_rule_and_report(rule: str) -> str:
    """A line on how a class of the user's own does with its defaults; InputError where it fails."""
    required = [one.name for one in dataclasses.fields(method_registry.rule_class(rule))
                if is_required(one)]  # fmt: skip
    if required:
        return (
            f"\n  not tried    {required[0]} has no default: make run tries the rule with yours, "
            "before it trains"
        )
    domains, rows, steps = ("a", "b", "c"), 24, 10_000
    with method_registry.own_faults_told(rule):
        facts = method_trial.assumed_run_facts(domains, rows * steps, steps)
        method = method_registry.build_method(rule, {}, rule).for_run(facts)
        method_trial.try_method(method, domains, rows, steps=steps, absent=True)
    return "\n  tried        a few steps of invented signals of three domains: no fault"


def _provenance_section() -> str:
    """Where rules and finders come from, as Markdown."""
    # Commands that look for mixtures in another way are no finders of `FINDERS`.
    commands = {"reuse": "mixture_reuse", "design": "mixture_design"}
    modules = FINDERS | {name: f"pike_mixing.finders.{one}" for name, one in commands.items()}
    finders = {
        _module_link(name, modules.get(name, f"pike_mixing.finders.{name}")): told
        for name, told in provenance.FINDERS.items()
    }
    tables = {"Where rules come from": provenance.RULES, "Finders": finders}
    titles = ("name", "source", "what differs here", "checked")
    return "\n".join(
        f"\n## {title}\n\n{_markdown_table(titles, [(name, *told) for name, told in one.items()])}"
        for title, one in tables.items()
    )


def _module_link(name: str, class_or_module: str) -> str:
    """A name that leads to its module, as Markdown."""
    return f"[{name}](../{class_or_module.partition(':')[0].replace('.', '/')}.py)"


def _markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, ["---"] * len(titles), *rows))


def costs_of_needs(needs: Needs) -> list[Cost]:
    """What a method's needs cost, each with its place in the training loop."""
    return [
        Cost(*(part.format(**_measurement_texts(need)) for part in cost))
        for name, cost in COSTS.items()
        if (need := getattr(needs, name))
    ]


def _measurement_texts(need: Any) -> dict[str, str]:
    """Rows and steps of what is measured now and then."""
    if need is True:
        return {}
    told = {
        "rows": f"{need.rows} rows",
        "steps": "step" if need.every == 1 else f"{need.every} steps",
    }
    if isinstance(need, StatisticsNeed):
        told["rows"] = f"max({need.rows}, b_k) fresh rows" if need.fresh else "the batch's rows"
        told["more"] = " and inner products" if need.inner_products else ""
        told["gradients"] = "K gradients" if need.inner_products else "a gradient"
    return told


def default_needs(mixing_rule: str) -> Needs:
    """What a rule asks for with the defaults of its settings.

    Settings without a default are coefficients and names, on which no need depends.
    """
    kind = method_registry.rule_class(mixing_rule)
    if kind.needs is Method.needs:
        return Needs()
    with method_registry.own_faults_told(mixing_rule):
        return kind(**placeholders_of_required_settings(mixing_rule)).needs()


def placeholders_of_required_settings(mixing_rule: str) -> dict[str, Any]:
    """Some value for each setting that has no default."""
    kind = method_registry.rule_class(mixing_rule)
    hints = typing.get_type_hints(kind)
    examples: dict[Any, Any] = {float: 1.0, int: 1, str: "", bool: False, dict: {}, tuple: ()}
    return {
        field.name: get_args(hint)[0]
        if get_origin(hint := hints[field.name]) is Literal
        else examples.get(get_origin(hint) or hint)
        for field in dataclasses.fields(kind)
        if is_required(field)
    }


def _joined_cost_texts(mixing_rule: str) -> Cost:
    """All that is measured for a rule, and all that it adds to the work and memory of Mix."""
    parts = (
        [getattr(cost, part) for cost in costs_of_needs(default_needs(mixing_rule))]
        for part in Cost._fields
    )
    return Cost(*("; ".join(filter(None, words)) or "nothing" for words in parts))


def _rule_json(mixing_rule: str) -> dict[str, Any]:
    """All that is said of a rule."""
    kind, cost = method_registry.rule_class(mixing_rule), _joined_cost_texts(mixing_rule)
    return {
        "rule": mixing_rule,
        "about": getattr(kind, "about", ""),
        "settings": [one._asdict() for one in setting_descriptions(kind)],
        "measures": cost.measured,
        "work": cost.work,
        "memory": cost.memory,
        "code": RULES.get(mixing_rule, mixing_rule),
    }


def _rule_text(mixing_rule: str) -> str:
    kind, told = method_registry.rule_class(mixing_rule), _rule_json(mixing_rule)
    settings = setting_lines(kind)
    head = "  settings" + ("" if settings else ": none")
    lines = [mixing_rule, *wrap_text(told["about"], "  "), "", head, *settings, ""]
    if mixing_rule in provenance.RULES:
        source, differs, _ = provenance.RULES[mixing_rule]
        source += "" if differs in ("nothing", "-") else f"; here: {differs}"
    else:
        source = inspect.getdoc(inspect.getmodule(kind)) or ""
    named = {
        "measures": told["measures"],
        "more work": told["work"],
        "more memory": told["memory"],
        "source": " ".join(source.split()),
        "code": told["code"],
    }
    for label, words in named.items():
        lines += wrap_text(words, " " * 15, f"  {label:<13}")
    return "\n".join(lines)


def _overview_markdown_table() -> str:
    rows = []
    for rule, place in RULES.items():
        about = " ".join(_rule_json(rule)["about"].split()).replace("*", r"\*").replace("|", r"\|")
        rows.append([_module_link(rule, place), about, *_joined_cost_texts(rule)])
    return _markdown_table(("rule", "what it does", "measures", "work", "memory"), rows)
