"""Which of an experiment's names play the paper's: the configuration's section `paper`.

A name that the paper uses plays itself, unless the section casts another for it. A miniature's
domain may play a language, its task of continuations a downstream task.
"""

import csv
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pipeline.runtime.code_fingerprint import PACKAGE

Config = Mapping[str, Any]


class NameUse(NamedTuple):
    """One place of a configuration where names are used."""

    names: Iterable[str]
    known: Iterable[str]
    """The names that exist."""
    place: str


class PaperRole(NamedTuple):
    """One name of ours that plays one of the paper's."""

    kind: str
    ours: str
    papers: str


KINDS = {"scenarios": "scenario", "models": "model", "methods": "method", "tasks": "task"}
"""Sections of `paper`, and what the database calls their kind of name."""

CONTINUATION = "continuation-"
"""What stands before a domain's name in the name of its task of continuations."""


def read_paper_table(table: str) -> list[dict[str, str]]:
    """A table of the paper (pipeline/paper/)."""
    with (PACKAGE / "paper" / f"{table}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@functools.cache
def paper_names_by_kind() -> dict[str, tuple[str, ...]]:
    """The names that the paper uses, by kind, in its order."""
    names = read_paper_table("names")
    return {kind: tuple(r["name"] for r in names if r["kind"] == kind) for kind in KINDS.values()}


def name_uses_in_paper_section(config: Config) -> Iterator[NameUse]:
    """Where the section uses names, the paper's and ours, and which are known there."""
    for section, kind in KINDS.items():
        cast = config.get("paper", {}).get(section, {})
        yield NameUse(cast, _role_candidates(config, section), f"paper.{section}")
        for ours, played in cast.items():
            yield NameUse(_as_list(played), paper_names_by_kind()[kind], f"paper.{section}.{ours}")


def duplicate_role_problems(config: Config) -> list[str]:
    """Names of the paper that several of ours play: a table would show two rows in one place."""
    players = Counter((kind, played) for kind, _, played in paper_roles_of(config))
    return [
        f"paper: {times} names play the {kind} {played!r}: let one of them play it, and "
        "name what the others play"
        for (kind, played), times in players.items()
        if times > 1
    ]


def paper_roles_of(config: Config) -> list[PaperRole]:
    """Every name of ours that plays one of the paper's.

    A configuration without sections plays nothing.
    """
    result = []
    for section, kind in KINDS.items():
        cast = config.get("paper", {}).get(section, {})
        taken = {name for played in cast.values() for name in _as_list(played)}
        for ours in _role_candidates(config, section):
            alone = [] if ours in taken else [ours]
            played = _as_list(cast[ours]) if ours in cast else alone
            result += [
                PaperRole(kind, ours, name)
                for name in played
                if name in paper_names_by_kind()[kind]
            ]
    return result


def _role_candidates(config: Config, section: str) -> list[str]:
    """The experiment's own names of a section; tasks are its domains and all that is asked."""
    if section != "tasks":
        return list(config.get(section, {}))
    domains = list(config.get("sources", {}))
    requested = [
        task
        for evaluation in config.get("evaluation", {}).values()
        for entry in evaluation.get("tasks", [])
        for task in entry["tasks"]
    ]
    return list(dict.fromkeys([*domains, *(f"{CONTINUATION}{d}" for d in domains), *requested]))


def _as_list(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names
