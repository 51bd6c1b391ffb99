"""The commands `design`, `reuse` and `stages`: which mixtures to train next.

Their InputErrors: a wrong option, or what the functions refuse that they call.
"""

import argparse
import csv
import io
import json
import math
import sys
from collections.abc import Mapping

import numpy as np

from pike_mixing import by_domain, table_files
from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders import (
    loss_scaling,
    mixture_design,
    mixture_reuse,
    options,
    schedule_finder,
    swarm_table,
)
from pike_mixing.finders.fit import fit
from pike_mixing.finders.interface import Swarm


def proposed_csv_with_stderr_notes(arguments: argparse.Namespace) -> str:
    """The next mixtures to train, as CSV; on stderr, what they would show."""
    _refuse_bad_options(arguments)
    swarm, optimum_SxK, noise = None, None, None
    if arguments.table is not None:
        swarm, target = options.read_swarm_and_target(arguments, arguments.target or [])
        if target:
            optimum_SxK, noise = _resampled_optima_and_fit_error(arguments, swarm, target)
            for domain in swarm.without_unread_domains()[1]:
                sys.stderr.write(f"no row reads {domain!r}: the fit gives it no weight, unseen\n")
    domains = swarm.domains if swarm else tuple(arguments.domains)
    if len(domains) < 2:
        raise InputError("--domains: name two at least, or give a table")
    trained_NxK = swarm.weights_and_losses()[0] if swarm else np.empty((0, len(domains)))
    new_NxK = mixture_design.propose_mixtures(
        arguments.kind,
        arguments.count,
        _mixture_distribution(arguments, domains),
        trained_NxK,
        optimum_SxK,
        seed=arguments.seed,
    )
    if optimum_SxK is not None and noise is not None:
        before, after = (
            mixture_design.smallest_visible_loss_difference(optimum_SxK, mixtures, noise)
            for mixtures in (trained_NxK, np.concatenate([trained_NxK, new_NxK]))
        )
        # Beside the table, which is read by programs.
        sys.stderr.write(
            f"differences between possible optima that a fit sees: {before:.4g} nats with "
            f"{len(trained_NxK)} runs, {after:.4g} with {arguments.count} more\n"
        )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    pattern = arguments.weight_columns or swarm_table.WEIGHT
    if arguments.metrics is not None:
        columns = table_files.read_csv_or_parquet(arguments.table)
        pattern = swarm_table.column_pattern_in_file(
            columns, arguments.weight_columns, swarm_table.WEIGHT
        )
    writer.writerow([pattern.replace("*", domain) for domain in domains])
    writer.writerows([f"{value:.6f}" for value in weights_K] for weights_K in new_NxK)
    return text.getvalue().rstrip()


def _resampled_optima_and_fit_error(
    arguments: argparse.Namespace, swarm: Swarm, target: Mapping[str, float]
) -> tuple[Floats, float | None]:
    """Mixtures [S, K] of resampled tables, and the error of the fit on held-out runs, if any.

    A domain that no run reads has no weight in them, but a place in the mixture_design.
    """
    loss_scaling.refuse_several_sizes(swarm)
    read, unread = swarm.without_unread_domains()
    result = fit(options.finder_of_options(arguments, target, unread), read, seed=arguments.seed)
    optimum_SxK = read.widen_columns(result.optimum_SxK, swarm.domains)
    return optimum_SxK, result.result.diagnostics.get("held_out_rmse")


def _refuse_bad_options(arguments: argparse.Namespace) -> None:
    if arguments.count < 1:
        raise InputError("--count: must be at least 1")
    if arguments.seed < 0:
        raise InputError("--seed: must not be negative")
    if not 0 < arguments.concentration < math.inf:
        raise InputError("--concentration: must be a finite number above 0")
    if len(set(arguments.domains)) < len(arguments.domains):
        raise InputError(f"--domains: {' '.join(arguments.domains)}: name each domain once")
    tables = [name for name in arguments.domains if name.endswith((".csv", ".parquet"))]
    if arguments.table is None and tables:
        raise InputError(
            f"--domains takes every word behind it, {tables[0]!r} too: type the table first: "
            f"design {tables[0]} ..."
        )
    if len(arguments.phases) > 1:
        raise InputError("--phases: a design is of one mixture for the whole run: leave it out")


def _mixture_distribution(
    arguments: argparse.Namespace, domains: tuple[str, ...]
) -> mixture_design.MixtureDistribution:
    caps = options.parse_numbers(arguments.cap, "--cap", domains)
    prior = options.parse_numbers(arguments.prior, "--prior", domains)
    if negative := [f"{name}={cap:g}" for name, cap in caps.items() if cap < 0]:
        raise InputError(f"--cap: {', '.join(negative)} must not be negative")
    return mixture_design.MixtureDistribution(
        by_domain.shares_in_order(prior or None, domains, "--prior"),
        np.array([float(caps.get(domain, np.inf)) for domain in domains]),
        arguments.concentration,
    )


def kept_or_expanded_mixture_json(arguments: argparse.Namespace) -> str:
    """An old mixture's ratios where domains come and go, or the new mixture of all domains."""
    within = mixture_reuse.kept_weights(
        options.parse_numbers(arguments.old, "--old"), arguments.changed
    )
    if arguments.new:
        within = mixture_reuse.expand_mixture(
            options.parse_numbers(arguments.new, "--new"), arguments.virtual, within
        )
    return json.dumps(within, indent=2)


def schedule_json(arguments: argparse.Namespace) -> str:
    """The settings of a rule `schedule`, from losses over steps of several runs."""
    if arguments.stages < 1:
        raise InputError("--stages: must be at least 1")
    if not math.isfinite(arguments.eta):
        raise InputError("--eta: must be a finite number")
    swarm, target = options.read_swarm_and_target(arguments, arguments.target)
    seen = schedule_finder.cut_into_stages(swarm, arguments.stages)
    weights_SxK = schedule_finder.find_schedule(seen, target, arguments.eta)
    points = [dict(zip(seen.domains, row, strict=True)) for row in weights_SxK.tolist()]
    return json.dumps({"rule": "schedule", "points": points, "at": seen.at_S.tolist()})
