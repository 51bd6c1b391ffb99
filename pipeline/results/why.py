"""The chain behind an artifact, down to the text's revision and the code."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from pike_mixing.errors import InputError
from pipeline.planning import outdated
from pipeline.results.selection import Row, at_hand, connect, query
from pipeline.runtime import presentation

FACTS = ("revision", "licence", "device", "weights_sha256", "data_fingerprint")
"""Facts of a manifest that the tree shows."""


def why(artifact: str, database: Path, format: str = "text") -> str:
    """What the artifact was made from, by which code, from which revision.

    What occurs a second time is named with `(above)` and not unfolded again.

    Args:
        artifact: A stable name: table/perplexity, figure/losses, run/..., checkpoint/.../step800,
            evaluation/..., probe/..., corpus/..., tokenizer/..., source/...
        database: The experiment's database.
        format: text, an indented tree, or json: a list of the chain's artifacts, each once.

    Raises:
        InputError: there is no database, it is none of ours, or it has no such artifact; the
            message has near names.
    """
    database = at_hand(database)
    try:
        with connect(database) as connection:
            rows = query(
                connection,
                "select artifact, path, sha256, produced_by, inputs, settings, code_fingerprint, "
                "code_commit, facts from lineage",
            )
    except (duckdb.CatalogException, duckdb.BinderException):
        raise InputError(
            f"{database} has no lineage that this version reads: give a database that `pike "
            "database` made with it"
        ) from None
    compared = outdated.of_results(*database.absolute().parents[:2])
    stale: dict[str, list[str]] = {}
    for one in compared.every() if compared else ():
        stale.setdefault(one.artifact, []).append(one.reason)
    lineage = {row["artifact"]: row for row in rows}
    if artifact not in lineage:
        raise InputError(_unknown(artifact, list(lineage)))
    chain: dict[str, Row] = {}
    text = "\n".join(_tree(lineage, stale, artifact, "", chain))
    return presentation.render(format, list(chain.values()), lambda: text)


def _unknown(artifact: str, names: list[str]) -> str:
    inside = [name for name in names if artifact and artifact in name]
    # Whole last parts first (pike/seed0 is not a part of balanced-pike/seed0), short names first.
    inside.sort(key=lambda name: (not f"/{name}".endswith(f"/{artifact}"), len(name), name))
    near = inside or difflib.get_close_matches(artifact, names, n=5, cutoff=0.5)
    kinds = sorted({name.partition("/")[0] for name in names})
    if near:
        more = f" and {len(near) - 5} more" if len(near) > 5 else ""
        hint = f"near it: {', '.join(near[:5])}{more}"
    else:
        hint = f"kinds of artifacts: {', '.join(kinds)}"
    return (
        f"there is no artifact {artifact!r} in the database: {hint}; "
        '`pike query "select artifact from lineage"` lists all'
    )


def _tree(
    lineage: Mapping[str, Row],
    stale: Mapping[str, list[str]],
    name: str,
    indent: str,
    chain: dict[str, Row],
) -> Iterator[str]:
    """The tree's lines of an artifact and of what it was made from, which the chain gets, too."""
    if name in chain:
        yield f"{indent}{name}  (above)"
        return
    row = lineage[name]
    facts = json.loads(row["facts"]) if row["facts"] else {}
    chain[name] = {**row, "facts": facts, "out_of_date": stale.get(name, [])}
    yield f"{indent}{name}  {_maker(row)}"
    detail = indent + "    "
    yield f"{detail}{row['path']}" + (f"  sha256 {row['sha256'][:16]}" if row["sha256"] else "")
    if shown := [f"{key} {_short(facts[key])}" for key in FACTS if facts.get(key)]:
        yield f"{detail}{', '.join(shown)}"
    for reason in stale.get(name, []):
        yield detail + presentation.paint(f"OUT OF DATE: {reason} changed", "red")
    for source in row["inputs"]:
        yield from _tree(lineage, stale, source, f"{indent}  ", chain)


def _maker(row: Row) -> str:
    """By which stage and code, for what a stage made."""
    if not row["code_fingerprint"]:
        return f"[{row['produced_by']}]"
    commit = row["code_commit"]
    at = f" at {commit[:12]}{'+' if commit.endswith('+') else ''}" if commit else ""
    return f"[{row['produced_by']}, code {row['code_fingerprint']}{at}]"


def _short(value: Any) -> str:
    """Checksums by their first 16 digits, all else whole."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text[:16] if re.fullmatch("[0-9a-f]{64}", text) else text
