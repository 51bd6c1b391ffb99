"""`pike advise`: the decision of an experiment, and what is copied into a trainer's settings."""

from pathlib import Path
from typing import Any

import yaml

from pike_mixing.comparison.mean_difference import LEAST_SEEDS
from pike_mixing.errors import InputError
from pike_mixing.settings import unknown
from pipeline.results import decisions
from pipeline.results.picture import MOST_LINES
from pipeline.results.provenance import count_of
from pipeline.results.selection import Row, at_hand, ours
from pipeline.runtime import presentation

NAME = "advised"
"""What the method is called in a configuration."""


def advise(
    database: Path,
    scenario: str | None = None,
    model: str | None = None,
    format: str = "text",
) -> str:
    """What to train with, by the runs of a database.

    Args:
        database: The experiment's database.
        scenario: The one that is asked about; without it all are.
        model: The size that is asked about; without it all are.
        format: text or json; summary is a line for each scenario and size; yaml, python or
            interleave are the lines to copy.

    Raises:
        InputError: nothing was compared there, or the database is another version's.
    """
    database = at_hand(database)
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
    if format in ("text", "json", "summary"):
        shown = [p for p in every if any(row["seeds"] >= LEAST_SEEDS for row in p["rows"])] or every
        rest = ", ".join(f"{p['scenario']} / {p['model']}" for p in every if p not in shown)
        parts = [*map(summary if format == "summary" else text, shown)]
        parts += [f"Too few seeds for a verdict: {rest}"] if rest else []
        gap = "\n" if format == "summary" else "\n\n"
        return presentation.render(format, every, lambda: gap.join(parts))
    return snippets(_only(every, f"--format {format}"))[format]


def _only(places: list[Row], option: str) -> Row:
    if len(places) > 1:
        names = ", ".join(f"{p['scenario']} {p['model']}" for p in places)
        raise InputError(f"{option} is for one decision, here are several: give --scenario and "
                         f"--model of {names}")  # fmt: skip
    return places[0]


def summary(place: Row) -> str:
    """A decision in one line, with the difference of what it advises."""
    (row,) = [row for row in place["rows"] if row["method"] == place["chosen"]] or [None]
    loss = f" Loss minus that of {place['against']}: {decisions.difference(row)}." if row else ""
    none = "" if row else f" {place['text'][1]}"
    return f"{place['scenario']} / {place['model']}: {place['text'][0]}{loss}{none}"


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
        lines.append(f"    {count_of(len(more), 'method')} with a higher loss: the report has all")
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
