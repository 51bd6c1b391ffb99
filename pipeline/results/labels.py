"""Names as people read them: of methods, scenarios and sizes."""

import csv
import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from pike_mixing import RULES

PAPER = Path(__file__).parents[1] / "paper" / "names.csv"


def rule_label(name: str) -> str:
    """A rule's name, or `package.module:Class`, in the spelling of its class.

    balanced-pike is Balanced-PiKE.
    """
    letters = RULES.get(name, name).rpartition(":")[2]
    parts, rest = [], letters
    for part in name.split("-"):
        if not rest.lower().startswith(part):
            return re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", letters)
        parts.append(rest[: len(part)])
        rest = rest[len(part) :]
    return "-".join(parts)


def method_labels(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The label of every method of an experiment, and of the one that others are compared with.

    A method that is called like its rule or like one of the paper's has that label; another has its
    rule's, and the settings in which it differs from the method that is called like the rule: where
    scenarios have settings of their own, those that it has in all in which it ran.
    """
    sql = "select config, baseline from experiment"
    ((config, baseline),) = connection.execute(sql).fetchall()
    sections = json.loads(config)
    known: dict[str, Any] = dict(sections.get("methods", {}))
    runs = connection.execute(
        "select method, any_value(settings ->> 'rule' order by run), "
        "any_value(settings -> 'method' order by run), list(distinct scenario) "
        "from runs group by method order by method"
    )
    ran: dict[str, list[str]] = {}
    for name, own_rule, values, ran[name] in runs.fetchall():
        known.setdefault(name, {"rule": own_rule, **json.loads(values or "{}")})
    # There may be no run of the baseline.
    known.setdefault(baseline, {})
    settled = {
        scenario: {m: v | values.get("methods", {}).get(m, {}) for m, v in known.items()}
        for scenario, values in sections.get("scenarios", {}).items()
        if isinstance(values, dict)
    }
    result = {}
    for name, values in known.items():
        places = (settled.get(scenario, known) for scenario in ran.get(name, [""]))
        first, *others = {_method_label(name, place[name], place) for place in places}
        result[name] = (
            _method_label(name, {"rule": values.get("rule", name)}, {}) if others else first
        )
    return result


def _method_label(
    name: str, values: Mapping[str, Any], settings_by_method: Mapping[str, Any]
) -> str:
    own_rule = values.get("rule", name)
    if name == own_rule:
        return rule_label(name)
    if own_rule == "single" and "domain" in values:
        return f"{values['domain']} alone".capitalize()
    if name in paper_method_labels():
        return paper_method_labels()[name]
    sibling = settings_by_method.get(own_rule, {})
    if sibling.get("rule") == own_rule:
        differs = {k: v for k, v in values.items() if v != sibling.get(k) and k != "grid"}
        if differs and all(isinstance(v, int | float | str) for v in differs.values()):
            return ", ".join([rule_label(own_rule), *(f"{k} {v}" for k, v in differs.items())])
    rest = name.removeprefix(own_rule)
    if rest != name and rest:
        return f"{rule_label(own_rule)} ({rest.strip('-').replace('-', ' ')})"
    return (rule_label(name) if name in RULES else name.replace("-", " ").capitalize()).strip()


@functools.cache
def paper_method_labels() -> dict[str, str]:
    """The paper's labels by name; but those of ablations, which are numbers, and of domains."""
    with PAPER.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "method"]
    return {
        row["name"]: row["label"].replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
        for row in rows
        if re.match("[A-Z]", row["label"]) and not row["name"].startswith("single-")
    }


def scenario_label(name: str, about: object) -> str:
    """The first words of what a scenario is about, or its name."""
    if not isinstance(about, str) or not about:
        return name
    return re.split(r"[,:]| of | from | with ", about)[0].strip()


def amount_in_words(number: float) -> str:
    """A count of parameters or tokens: 164,000 is 164 thousand, 999,680 is 1 million."""
    number = float(f"{number:.3g}")
    for size, word in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if number >= size:
            return f"{number / size:.3g} {word}"
    return f"{number:g}"
