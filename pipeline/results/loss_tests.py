"""Paired tests of final losses, by domain, by mean over domains and over scenarios: loss_tests.

Shapes: R checkpoints, S seeds, N documents of one domain, G of them that all compared runs read, K
domains.
"""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.comparison import mean_difference, p_values
from pike_mixing.comparison.mean_difference import DocumentDifferences, Estimate
from pipeline.results.measured_results import (
    Curves,
    MeasuredResults,
    TaskCurve,
    pair_last_checkpoints_by_seed,
)
from pipeline.results.record_loader import insert_rows

CLAIMED = """
    select distinct method, against from claimed_pairs
    where quantity in ('perplexity', 'spread') and scenario = $1 and model = $2
"""
ORACLE_RUNS = """
    select r.model, r.scenario, r.seed from runs as r join experiment as e on r.method = e.oracle
"""


class OracleRun(NamedTuple):
    """A run of the method that trains on the best static mixture found."""

    model: str
    scenario: str
    seed: int


@dataclass(frozen=True)
class DomainDifference:
    """Two methods in one domain: losses in nats, and perplexities by the delta method."""

    domain: str
    target: float
    nll: DocumentDifferences
    perplexity: DocumentDifferences
    loss_2xS: Floats
    """Of the method and of the other one."""
    residual_2xSxG: Floats
    """By how much each document's loss is more than its tokens tell."""
    tokens_G: Floats


@dataclass(frozen=True)
class MethodPair:
    """Two methods in one scenario, over the seeds of both."""

    scenario: str
    model: str
    method: str
    against: str
    seeds: list[int]
    domains: list[DomainDifference]
    whole: bool
    """Whether all domains that the method was evaluated on are compared."""


def _method_pair(
    scenario: str, model: str, method: str, against: str, losses: Curves
) -> MethodPair:
    seeds, rows_S, others_S = pair_last_checkpoints_by_seed(losses.checkpoints, method, against)
    found = [
        _domain_difference(domain, read, rows_S, others_S)
        for domain, read in losses.by_name.items()
        if seeds and np.isfinite(read.value_RxN[rows_S]).any()
    ]
    domains = [d for d in found if d is not None]
    whole = len(domains) == len(found) > 0
    return MethodPair(scenario, model, method, against, seeds, domains, whole)


def _domain_difference(
    domain: str, read: TaskCurve, rows_S: list[int], others_S: list[int]
) -> DomainDifference | None:
    """None where the runs read no document in common."""
    shared_N = np.isfinite(read.value_RxN[rows_S + others_S]).all(axis=0)
    if not shared_N.any():
        return None
    sum_2xSxG = np.stack([read.value_RxN[rows][:, shared_N] for rows in (rows_S, others_S)])
    tokens_G, document_G = read.count_N[shared_N], read.document_N[shared_N]
    loss_2xS = sum_2xSxG.sum(axis=2) / tokens_G.sum()
    residual_2xSxG = sum_2xSxG - loss_2xS[..., None] * tokens_G
    own_S, other_S = np.exp(loss_2xS)
    a_SxG, b_SxG = np.exp(loss_2xS)[..., None] * residual_2xSxG
    return DomainDifference(
        domain,
        read.weight,
        mean_difference.differences_of_sums(sum_2xSxG[0] - sum_2xSxG[1], tokens_G, document_G),
        mean_difference.differences_of_residuals(
            own_S - other_S, a_SxG - b_SxG, tokens_G, document_G
        ),
        *(loss_2xS, residual_2xSxG, tokens_G),
    )


def _spread_difference(domains: list[DomainDifference]) -> Estimate | None:
    """The difference of the domains' standard deviation of losses, by the delta method.

    A domain's loss moves the spread by its distance from the mean over K spreads; None where a
    spread is zero, as that of one domain is.
    """
    loss_Kx2xS = np.stack([d.loss_2xS for d in domains])
    apart_Kx2xS = loss_Kx2xS - loss_Kx2xS.mean(axis=0)
    spread_2xS = np.sqrt((apart_Kx2xS**2).mean(axis=0))
    if len(domains) < 2 or not spread_2xS.all():
        return None
    parts = []
    for d, slope_2xS in zip(domains, apart_Kx2xS / spread_2xS, strict=True):
        a_SxG, b_SxG = slope_2xS[..., None] * d.residual_2xSxG
        told = (a_SxG - b_SxG, d.tokens_G, d.nll.document_G)
        parts.append(mean_difference.differences_of_residuals(spread_2xS[0] - spread_2xS[1], *told))
    # The mean of K parts, each of which has the whole difference, and K times its domain's share.
    return mean_difference.estimate(parts)


@dataclass(frozen=True)
class LossTest:
    """A row of loss_tests; without a domain the mean, without a scenario that over all of them."""

    scenario: str | None
    model: str
    method: str
    against: str
    domain: str | None
    nll: Estimate
    perplexity: Estimate | None
    spread: Estimate | None
    """Of the losses over domains."""
    other: float | None
    """The other method's perplexity, mean over seeds."""


def fill_loss_tests(measured: MeasuredResults) -> None:
    """Fills loss_tests: every method against the baseline and the oracle, and pairs of claims.

    p is null over few seeds or documents (`p_values.p_value_if_enough`). It is corrected
    over all methods of a scenario and model against one reference: their means are one family,
    their domains another, means over scenarios a third. Claims correct their pairs themselves.
    """
    connection = measured.connection
    references = (measured.baseline, measured.oracle)
    ((config,),) = connection.execute("select config from experiment").fetchall()
    wanted = requested_methods(json.loads(config))
    pairs: list[MethodPair] = []
    for place in measured.places:
        losses = measured.losses(*place)
        methods = {c.method for c in losses.checkpoints}
        compared = {*itertools.product(methods, methods.intersection(references))}
        compared.update(connection.execute(CLAIMED, place).fetchall())
        pairs += (_method_pair(*place, a, b, losses) for a, b in sorted(compared) if a != b)
    pairs = [pair for pair in pairs if pair.domains]
    oracle_runs = [OracleRun(*row) for row in connection.execute(ORACLE_RUNS).fetchall()]
    tests = []
    for pair in pairs:
        tests += [_loss_test(pair, one.domain, [one]) for one in pair.domains]
        tests += [_loss_test(pair, None, pair.domains)] if pair.whole else []
    tests += _means_over_scenarios_with_oracle(pairs, oracle_runs)
    families: dict[Any, list[LossTest]] = defaultdict(list)
    for test in tests:
        serves = bool(wanted) and test.method not in wanted
        family = test.scenario, test.model, test.against, test.domain is None
        families[() if test.against not in references or serves else family].append(test)
    for family, members in families.items():
        insert_rows(
            connection, "loss_tests", _rows_with_holm_p_values(members, corrected=family != ())
        )


def requested_methods(config: Mapping[str, Any]) -> set[str]:
    """The methods that runs are asked for; others, such as a proxy, are compared in no family."""
    return {method for entry in config.get("runs", []) for method in entry["methods"]}


def _loss_test(pair: MethodPair, domain: str | None, domains: list[DomainDifference]) -> LossTest:
    """The test of one domain, or without one of the mean over all."""
    # A domain alone counts whole, also one that the target leaves out.
    weights = [d.target for d in domains] if domain is None else [1.0]
    return LossTest(
        *(pair.scenario, pair.model, pair.method, pair.against, domain),
        mean_difference.estimate([d.nll for d in domains], weights),
        mean_difference.estimate([d.perplexity for d in domains], weights),
        None if domain else _spread_difference(domains),
        float(np.average([np.exp(d.loss_2xS[1]).mean() for d in domains], weights=weights)),
    )


def _means_over_scenarios_with_oracle(
    pairs: list[MethodPair], oracle_runs: list[OracleRun]
) -> Iterator[LossTest]:
    """The mean over the scenarios that have an oracle, and over the oracle's seeds, by method.

    Each scenario weighs alike; a text in several scenarios is one document. Methods that lack a
    scenario have no mean.
    """
    seeds_of: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for model, scenario, seed in oracle_runs:
        seeds_of[model][scenario].add(seed)
    grouped: dict[tuple[str, str, str], list[MethodPair]] = defaultdict(list)
    for pair in pairs:
        if pair.whole and pair.scenario in seeds_of[pair.model]:
            grouped[pair.model, pair.method, pair.against].append(pair)
    for (model, method, against), same in grouped.items():
        seeds_by = seeds_of[model]
        seeds = set.intersection(*(seeds_by[p.scenario].intersection(p.seeds) for p in same))
        if len(same) < len(seeds_by) or not seeds:
            continue
        parts, weights = [], []
        for pair in same:
            kept = [i for i, seed in enumerate(pair.seeds) if seed in seeds]
            whole = sum(d.target for d in pair.domains)
            parts += [d.nll.of_seeds(kept) for d in pair.domains]
            weights += [d.target / whole for d in pair.domains]
        result = mean_difference.estimate(parts, weights)
        yield LossTest(None, model, method, against, None, result, None, None, None)


def _rows_with_holm_p_values(tests: list[LossTest], *, corrected: bool) -> Iterator[list[Any]]:
    """Rows of a family, with its p-values corrected together."""
    numbers: list[list[list[Any]]] = []
    for found in ([getattr(t, of) for t in tests] for of in ("nll", "perplexity", "spread")):
        p_M = [None if e is None else p_values.p_value_if_enough(e) for e in found]
        holm_M = p_values.holm_adjusted(p_M) if corrected else [None] * len(p_M)
        numbers.append(
            [
                [None] * 9 if e is None else [*_difference_and_error_columns(e), p, holm]
                for e, p, holm in zip(found, p_M, holm_M, strict=True)
            ]
        )
    for test, *columns in zip(tests, *numbers, strict=True):
        place = [test.scenario, test.model, test.method, test.against, test.domain]
        counts = [test.nll.seeds, test.nll.lower, test.nll.effective, test.other]
        yield [*place, *counts, *itertools.chain(*columns)]


def _difference_and_error_columns(estimate: Estimate) -> list[float | None]:
    """Difference, standard error, ends, and of the error what seeds, documents and degrees are."""
    ends = mean_difference.interval_ends(estimate)
    error = estimate.seed_sd, estimate.of_items, estimate.degrees
    return [estimate.difference, estimate.stderr, *ends, *error]
