"""Parsing of the command-line options that the finders' commands share."""

import argparse
import contextlib
import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np

from pike_mixing import by_domain, foreign_json
from pike_mixing.errors import InputError, refuse
from pike_mixing.finders import FINDERS, build_finder, swarm_table
from pike_mixing.finders.interface import Inventory, Swarm, SwarmFinder
from pike_mixing.setting_messages import unknown_name_message
from pike_mixing.swarms import catalogue

SIZES = ("parameters", "tokens")
"""What a run's size is told by."""


def _pair_example(text: str) -> str:
    return f"{text}=VALUE"


def parse_pairs(
    texts: Sequence[str], option: str, example: Callable[[str], str] = _pair_example
) -> dict[str, Any]:
    """Parses NAME=VALUE texts. A value is JSON or a number; any other is kept as text.

    The example is what to type in place of a text without `=`.
    """
    pairs = parse_text_pairs(texts, option, example)
    return {name: _parse_value(text) for name, text in pairs.items()}


def parse_text_pairs(
    texts: Sequence[str], option: str, example: Callable[[str], str] = _pair_example
) -> dict[str, str]:
    """Parses NAME=VALUE texts; values stay texts. The example is as of `parse_pairs`."""
    result: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name.startswith(","):
            raise InputError(f"{option}: {text!r}: separate by spaces, without commas")
        if not name:
            raise InputError(f"{option}: {text!r} has no name before the =: type it there")
        if not equals:
            raise InputError(
                f"{option}: {text!r} is not NAME=VALUE: type, for example, {example(text)}"
            )
        if name in result:
            raise InputError(f"{option}: {name!r} is given twice")
        result[name] = value
    return result


def _parse_value(text: str) -> Any:
    """JSON, a number such as .5, or the text."""
    with contextlib.suppress(ValueError):
        return foreign_json.parse_json_or_value_error(text)
    with contextlib.suppress(ValueError):
        return float(text)
    return text


def parse_numbers(
    texts: Sequence[str],
    option: str,
    names: Sequence[str] | None = None,
    *,
    value_of_bare_name: float | None = None,
    at_least: float = -math.inf,
) -> dict[str, float]:
    """Parses finite numbers by name, of the known names where these are given.

    A name without =NUMBER has `value_of_bare_name`, where there is one.
    """
    if value_of_bare_name is not None:
        texts = [text if "=" in text else f"{text}={value_of_bare_name}" for text in texts]
    values = parse_pairs(texts, option, lambda text: f"{text}=1")
    problems = [
        unknown_name_message(n, names, option)
        for n in values
        if names is not None and n not in names
    ]
    bound = "" if at_least == -math.inf else f" of at least {at_least:g}"
    problems += [
        f"{option}: {name}={value} is no finite number{bound}{_comma_hint(value, option, name)}"
        for name, value in values.items()
        if isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not at_least <= value < math.inf
        or value == -math.inf
    ]
    refuse(problems)
    return values


def _comma_hint(value: object, option: str, name: str) -> str:
    """What to type where commas stand between several pairs."""
    if not isinstance(value, str) or "," not in value:
        return ""
    words = " ".join(part.strip() for part in value.split(",")).strip()
    return f": separate by spaces: {option} {name}={words}"


def read_swarm_and_target(
    arguments: argparse.Namespace, target_texts: Sequence[str]
) -> tuple[Swarm, dict[str, float]]:
    """The table that the options name, with the losses of a target, and their weights in it.

    Losses are named as their columns or shorter, of weight 1 where none is given; a * is all losses
    of the swarm.
    """
    weights = parse_numbers(target_texts, "--target", value_of_bare_name=1.0, at_least=0)
    swarm = swarm_of_options(arguments, None if "*" in weights else list(weights))
    every = dict.fromkeys(swarm.losses, weights.pop("*")) if "*" in weights else {}
    names = swarm_table.loss_names(weights, arguments.loss_columns or swarm_table.LOSS)
    return swarm, every | dict(zip(names, weights.values(), strict=True))


def finder_of_options(
    arguments: argparse.Namespace, target: Mapping[str, float], unread_domains: Collection[str] = ()
) -> SwarmFinder:
    """The finder that the options name, for this target, which reads tables of losses.

    Settings may name domains that no run reads; the fit does not see these.
    """
    name = arguments.finder
    reads = build_finder.finder_class(name).reads if name in FINDERS else "losses"
    if reads not in ("losses", "epochs"):
        raise InputError(f"the finder {name!r} reads the {reads} of a run, not a table")
    given = {
        name: {d: v for d, v in value.items() if d not in unread_domains or name == "target"}
        if isinstance(value, dict)
        else value
        for name, value in parse_pairs(arguments.set, "--set").items()
    }
    settings = {"target": dict(target)} | given
    return cast(SwarmFinder, build_finder.build_finder(name, settings, "--set"))


def swarm_of_options(
    arguments: argparse.Namespace,
    losses: Sequence[str] | None,
    option_names: tuple[str, str, str] = ("table", "metrics", "where"),
) -> Swarm:
    """The runs of the table whose path, second file and rows these options hold."""
    path, metrics, chosen = (getattr(arguments, name) for name in option_names)
    where = parse_text_pairs(chosen, f"--{option_names[2]}".replace("_", "-"))
    sizes = parse_text_pairs(arguments.size_columns, "--size-columns")
    swarm_table.refuse_unknown_names(sizes, SIZES, "--size-columns")
    swarm = swarm_table.read_swarm(
        catalogue.packaged_table_or_path(path),
        losses,
        metrics=metrics,
        where=where,
        phases=arguments.phases,
        weight=arguments.weight_columns,
        loss=arguments.loss_columns,
        sizes=sizes,
        skip_unmeasured=arguments.skip_unmeasured,
        run=getattr(arguments, "run_column", None),
    )
    return _with_final_and_run_inventories(swarm, arguments.available, arguments.budget)


def _with_final_and_run_inventories(
    swarm: Swarm, available: Sequence[str], budget: float | None
) -> Swarm:
    """The swarm with what is typed in of text: of the final training, and of runs without any."""
    if budget is not None and not 0 < budget < math.inf:
        raise InputError(f"--budget: {budget:g} must be a finite number of tokens above 0")
    if not available and budget is None:
        return swarm
    phases, names = len(swarm.phases), swarm.domains
    if phases > 1:
        names = tuple(name.partition("/")[2] for name in names[: len(names) // phases])
    texts = {None if r.available_K is None else tuple(r.available_K) for r in swarm.runs}
    text = texts.pop() if len(texts) == 1 else None
    available_K = None if text is None else np.array(text)
    if available:
        given = parse_numbers(available, "--available", names)
        if wrong := [name for name, tokens in given.items() if tokens <= 0]:
            raise InputError(f"--available: {wrong[0]} must be above 0: leave its column out")
        available_K = np.tile(
            by_domain.values_in_order(given, names, "--available", "text"), phases
        )
        runs = [
            run
            if run.available_K is not None
            else dataclasses.replace(run, available_K=available_K)
            for run in swarm.runs
        ]
        swarm = dataclasses.replace(swarm, runs=runs)
    tokens = {run.tokens for run in swarm.runs}
    read = budget if budget is not None else tokens.pop() if len(tokens) == 1 else None
    if available_K is None or read is None:
        what = "--available: give the text" if available_K is None else "--budget: give the tokens"
        raise InputError(f"{what} of the training that the mixture is for: the table tells none")
    return dataclasses.replace(swarm, final=Inventory(read, available_K))
