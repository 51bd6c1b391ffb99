"""`pike advise`: the decision of an experiment, and what is copied into a trainer's settings."""

import re
from pathlib import Path
from typing import Any

import yaml

from pike_mixing.comparison.mean_difference import LEAST_SEEDS
from pike_mixing.errors import InputError
from pike_mixing.settings import unknown
from pipeline.planning import planner
from pipeline.results import decisions
from pipeline.results.picture import MOST_LINES
from pipeline.results.provenance import counted
from pipeline.results.selection import Row, ours
from pipeline.runtime import atomic_files, presentation

NAME = "advised"
"""What the method is called in a configuration that it is put into."""


def advise(
    database: Path,
    scenario: str | None = None,
    model: str | None = None,
    into: Path | None = None,
    format: str = "text",
) -> str:
    """What to train with, by the runs of a database.

    Args:
        database: The experiment's database.
        scenario: The one that is asked about; without it all are.
        model: The size that is asked about; without it all are.
        into: A configuration that gets the mixture or rule as the method `advised`.
        format: text or json; yaml, python or interleave are the lines to copy.

    Raises:
        InputError: nothing was compared there, the database is another version's, or the
            configuration cannot take the method.
    """
    with ours(database) as connection:
        every = decisions.of(connection)
    for key, wanted in (("scenario", scenario), ("model", model)):
        known = dict.fromkeys(place[key] for place in every)
        if wanted is not None and wanted not in known:
            raise InputError(unknown(wanted, known, f"--{key}"))
        every = [place for place in every if wanted in (None, place[key])]
    if not every:
        raise InputError(
            f"{database} has no two methods with one seed in common and two validation documents "
            "of each domain: train the baseline too, or add validation text (`pike corpus`)"
        )
    if into is not None:
        return insert(_only(every, "--into"), into)
    if format in ("text", "json"):
        shown = [p for p in every if any(row["seeds"] >= LEAST_SEEDS for row in p["rows"])] or every
        rest = ", ".join(f"{p['scenario']} / {p['model']}" for p in every if p not in shown)
        parts = [*map(text, shown)]
        parts += [f"Too few seeds for a verdict: {rest}"] if rest else []
        return presentation.shown(format, every, lambda: "\n\n".join(parts))
    return snippets(_only(every, f"--format {format}"))[format]


def _only(places: list[Row], option: str) -> Row:
    if len(places) > 1:
        names = ", ".join(f"{p['scenario']} {p['model']}" for p in places)
        raise InputError(f"{option} is for one decision, here are several: give --scenario and "
                         f"--model of {names}")  # fmt: skip
    return places[0]


def text(place: Row) -> str:
    """A decision, one of `decisions.of`, as a terminal shows it."""
    lines = [f"{place['scenario']} / {place['model']}: {place['title']}, {place['size']}"]
    lines += [f"  {sentence}" for sentence in place["text"]]
    told = ", ".join(f"{domain} {100 * share:.2f}%" for domain, share in place["shares"].items())
    lines.append(f"  {'Shares' if place['fixed'] else 'Shares that it drew'}: {told}")
    lines.append(
        f"  Loss minus that of {place['against']}, nats per token (95% interval of each alone): "
        "verdict after Holm's correction"
    )
    lines += [
        f"    {row['label']} {decisions.difference(row)}: {row['verdict']}; lower in "
        f"{row['seeds_better']} of {row['seeds']}"
        for row in place["rows"][:MOST_LINES]
    ]
    if more := place["rows"][MOST_LINES:]:
        lines.append(f"    {counted(len(more), 'method')} with a higher loss: the report has all")
    lines += [
        f"  Open: {row['label']} ({row['difference']:+.3f}); to settle it: {row['text']}"
        for row in place["open"][:3]
    ]
    lines += [f"  Warning: {warning}" for warning in place["warnings"]]
    return "\n".join(lines)


def snippets(place: Row) -> dict[str, str]:
    """Lines to copy: a configuration's, Python's, and those of `datasets.interleave_datasets`."""
    rule, settings = place["rule"]["rule"], {**place["rule"]}
    del settings["rule"]
    arguments = "".join(f", {name}={value!r}" for name, value in settings.items())
    # `interleave_datasets` refuses a set that it never draws from, or seeks its end for ever.
    shares = {domain: share for domain, share in place["shares"].items() if share}
    note = "" if place["fixed"] else "  # drawn on average; as fixed shares they were not tried"
    interleave = (
        f"shares = {shares!r}{note}\n"
        "mixed = interleave_datasets([parts[name] for name in shares],\n"
        "    probabilities=list(shares.values()), stopping_strategy='all_exhausted', seed=0)"
        if place["own_shares"]
        else f"# {place['label']} drew the shares of {place['against']}, so no mixture does what "
        "it does:\n# take the rule (python, yaml)."
    )
    return {
        "yaml": f"methods:\n  {NAME}: {_line(place['rule'])}",
        "python": f"from pike_mixing import make\n\nmethod = make({rule!r}{arguments})",
        "interleave": interleave,
    }


def _line(values: Any) -> str:
    """YAML in one line."""
    return yaml.safe_dump(values, default_flow_style=True, width=10_000, sort_keys=False).strip()


def insert(place: Row, path: Path) -> str:
    """Puts the mixture or rule into a configuration: a method `advised`, and runs of it.

    Only lines are added, so that remarks stay; the file is checked whole before it is written.

    Returns:
        What was added, and what to do next.

    Raises:
        InputError: it has no scenario of these domains, has such a method already, or is not laid
            out in lines; then what is to be added is in the message. Or the rule stands on what is
            not there.
    """
    config = planner.read(path)
    mine = {
        name: values
        for name, values in config.get("scenarios", {}).items()
        if set(values.get("domains", ())) == set(place["shares"])
    }
    if not mine:
        raise InputError(
            f"{path}: no scenario has the domains {', '.join(place['shares'])}: name them so, or "
            f"copy the shares by hand:\n{snippets(place)['yaml']}"
        )
    if NAME in config.get("methods", {}):
        raise InputError(f"{path}: methods.{NAME} is there already: remove it or name it otherwise")
    scenario = place["scenario"] if place["scenario"] in mine else next(iter(mine))
    entry: dict[str, Any] = next(
        (e for e in config.get("runs", []) if scenario in e.get("scenarios", [])), {}
    )
    runs = {"scenarios": [scenario], "models": entry.get("models", []), "methods": [NAME],
            "seeds": entry.get("seeds", [0])}  # fmt: skip
    added = {
        "methods": f"{NAME}: {_line(place['rule'])}",
        "runs": f"- {_line(runs)}",
    }
    content = path.read_text(encoding="utf-8")
    for section, line in added.items():
        pattern = rf"^{section}:[ \t]*(#.*)?\n((?:[ \t]*(?:#.*)?\n)*)(?P<indent>[ \t]*)(?=\S)"
        found = re.search(pattern, content, re.MULTILINE)
        if found is None:
            raise InputError(f"{path}: `{section}:` is no section of lines: add `{line}` by hand")
        at = found.start("indent")
        content = f"{content[:at]}{found['indent']}{line}\n{content[at:]}"
    with atomic_files.atomic_write(path) as partial:
        line_end = "\r\n" if b"\r\n" in path.read_bytes() else "\n"
        partial.write_text(content, encoding="utf-8", newline=line_end)
        planner.plan(planner.read(partial), str(path))
    return f"{path}: methods.{NAME}, and runs of it in {scenario}; next: make run CONFIG={path}"
