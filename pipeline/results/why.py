"""The chain behind an artifact, down to the text's revision and the code."""

import difflib
import functools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from pike_mixing.errors import InputError
from pipeline.planning import outdated
from pipeline.results.selection import Row, connect, find_database, query
from pipeline.runtime import output_formats

FACTS = ("revision", "licence", "device", "weights_sha256", "data_fingerprint")
"""Facts of a manifest that the tree shows."""
MANY = 8
"""Artifacts of one kind beside each other that are all unfolded."""


def explain_artifact(artifact: str, database: Path, format: str = "text") -> str:
    """What the artifact was made from, by which code, from which revision.

    What occurs a second time is named with `(above)` and not unfolded again. Of many artifacts of
    one kind that something was made from, such as the evaluations of a table, those are unfolded
    that lead to another text or are out of date; the others are counted.

    Args:
        artifact: A table or figure, by its file or name; or a stable name: table/perplexity,
            figure/losses, run/..., checkpoint/.../step800, evaluation/..., probe/..., corpus/...,
            tokenizer/..., source/...
        database: The experiment's database.
        format: text, an indented tree, or json: a list of the chain's artifacts, each once.

    Raises:
        InputError: there is no database, it is none of ours, or it has no such artifact; the
            message has near names.
    """
    database = find_database(database)
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
    compared = outdated.compare_results(*database.absolute().parents[:2])
    stale: dict[str, list[str]] = {}
    for one in compared.all_differences() if compared else ():
        stale.setdefault(one.artifact, []).append(one.reason)
    lineage = {row["artifact"]: row for row in rows}
    if artifact not in lineage:
        # A file of `tables/` or `figures/`, or its name alone.
        named = [n for n in lineage if n.partition("/")[2] == Path(artifact).stem]
        artifact = named[0] if len(named) == 1 else artifact
    if artifact not in lineage:
        raise InputError(_unknown(artifact, list(lineage)))
    tree = _Tree(lineage, stale)
    if format == "json":
        return output_formats.render(format, tree.chain(artifact), str)
    return output_formats.render(format, None, lambda: "\n".join(tree.lines(artifact)))


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


class _Tree:
    """Artifacts with what they were made from."""

    def __init__(self, lineage: Mapping[str, Row], stale: Mapping[str, list[str]]) -> None:
        self._lineage, self._stale = lineage, stale
        self._seen: set[str] = set()

    def chain(self, name: str) -> list[Row]:
        """The artifact and all that it was made from, each once."""
        found: dict[str, Row] = {}
        waiting = [name]
        while waiting:
            one = waiting.pop()
            if one not in found:
                row = self._lineage[one]
                known = {"facts": self._facts(one), "out_of_date": self._stale.get(one, [])}
                found[one] = {**row, **known}
                waiting += reversed(row["inputs"])
        return list(found.values())

    def lines(self, name: str, indent: str = "") -> Iterator[str]:
        """The artifact and, further in, what it was made from."""
        if name in self._seen:
            yield f"{indent}{name}  (above)"
            return
        self._seen.add(name)
        row, facts, detail = self._lineage[name], self._facts(name), indent + "    "
        yield f"{indent}{name}  {_maker(row)}"
        yield f"{detail}{row['path']}" + (f"  sha256 {row['sha256'][:16]}" if row["sha256"] else "")
        if shown := [f"{key} {_short(facts[key])}" for key in FACTS if facts.get(key)]:
            yield f"{detail}{', '.join(shown)}"
        for reason in self._stale.get(name, []):
            yield detail + output_formats.paint(f"OUT OF DATE: {reason} changed", "red")
        kinds: dict[str, list[str]] = {}
        for source in row["inputs"]:
            kinds.setdefault(source.partition("/")[0], []).append(source)
        for kind, sources in kinds.items():
            folded = 0
            for number, source in enumerate(sources):
                news = self._is_stale(source) or not self._texts(source) <= self._seen
                if number and len(sources) > MANY and not news:
                    folded += 1
                else:
                    yield from self.lines(source, f"{indent}  ")
            if folded:
                yield (
                    f"{indent}  and {folded} more of {kind}/: `pike why {sources[-1]}` "
                    "shows one, `--format json` all"
                )

    def _facts(self, name: str) -> Any:
        facts = self._lineage[name]["facts"]
        return json.loads(facts) if facts else {}

    @functools.cache  # noqa: B019 - one tree lives as long as its process
    def _texts(self, name: str) -> frozenset[str]:
        """The sources of text, and the tasks, that the artifact was made from."""
        own = frozenset([name] if name.startswith(("source/", "task/")) else [])
        return own.union(*map(self._texts, self._lineage[name]["inputs"]))

    @functools.cache  # noqa: B019 - one tree lives as long as its process
    def _is_stale(self, name: str) -> bool:
        """Whether the artifact, or anything that it was made from, is out of date."""
        return name in self._stale or any(map(self._is_stale, self._lineage[name]["inputs"]))


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
