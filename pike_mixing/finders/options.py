"""Parsing of the command-line options that the finders' commands share."""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pike_mixing.errors import InputError
from pike_mixing.finders import FINDERS, registry, table
from pike_mixing.finders.interface import Swarm, SwarmFinder
from pike_mixing.settings import unknown
from pike_mixing.swarms import catalogue


def parse_pairs(texts: Sequence[str], option: str, default: float | None = None) -> dict[str, Any]:
    """Parses NAME=VALUE texts. A value is JSON; one that is no valid JSON is kept as text.

    Args:
        texts: The option's arguments.
        option: The option, for messages.
        default: The value of a name alone; without it, a name alone is refused.

    Raises:
        InputError: a text is not NAME=VALUE, or a name is there twice.
    """
    result: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if (not equals and default is None) or not name:
            raise InputError(f"{option}: {text!r} is not NAME=VALUE")
        if name in result:
            raise InputError(f"{option}: {name!r} is given twice")
        try:
            result[name] = json.loads(value) if equals else default
        except json.JSONDecodeError:
            result[name] = value
    return result


def by_domain(texts: Sequence[str], option: str, domains: Sequence[str]) -> dict[str, float]:
    """Parses numbers by domain, as `parse_pairs` does.

    Args:
        texts: The option's arguments.
        option: The option, for messages.
        domains: Known domain names.

    Raises:
        InputError: a name is no domain.
    """
    values = parse_pairs(texts, option)
    if problems := [unknown(name, domains, option) for name in values if name not in domains]:
        raise InputError("\n".join(problems))
    return values


def target_of(arguments: argparse.Namespace, weighed: Sequence[str]) -> dict[str, float]:
    """Target weights by loss, without --loss-prefix; a loss without a weight has weight 1."""
    weights = parse_pairs(weighed, "--target", 1.0)
    return {name.removeprefix(arguments.loss_prefix): weight for name, weight in weights.items()}


def finder_of(arguments: argparse.Namespace, target: Mapping[str, float]) -> SwarmFinder:
    """The finder that the options name, for this target.

    Raises:
        InputError: the finder is unknown, does not read tables, or its settings are invalid.
    """
    name = arguments.finder
    reads = registry.kind(name).reads if name in FINDERS else "losses"
    if reads != "losses":
        raise InputError(f"the finder {name!r} reads the {reads} of a run, not a table")
    settings = {"target": dict(target)} | parse_pairs(arguments.set, "--set")
    return cast(SwarmFinder, registry.build(name, settings, "--set"))


def swarm_of(arguments: argparse.Namespace, losses: Sequence[str]) -> Swarm:
    """The table that the options name, with these losses."""
    return table.read(
        catalogue.located(arguments.table),
        losses,
        metrics=arguments.metrics,
        where=parse_texts(arguments.where, "--where"),
        phases=arguments.phases,
        weight=arguments.weight_prefix,
        loss=arguments.loss_prefix,
    )


def parse_texts(values: Sequence[str], option: str) -> dict[str, str]:
    """As `parse_pairs`, values as texts."""
    return {name: str(value) for name, value in parse_pairs(values, option).items()}
