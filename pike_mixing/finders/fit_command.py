"""The commands `fit` and `predict`.

Their InputErrors: a wrong option, or what the functions refuse that they call.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders import (
    conformal_intervals,
    cross_validation,
    loss_scaling,
    options,
    prediction_scores,
    saved_predictors,
)
from pike_mixing.finders.fit import Fit, fit
from pike_mixing.finders.interface import Swarm, SwarmFinder

SAID = {
    "held_out_spearman": "rank correlation on held-out rows",
    "held_out_r_squared": "R2 on held-out rows",
    "predicted_loss": "predicted loss of the mixture",
    "predicted_loss_uniform": "predicted loss of equal weights",
    "best_proxy_loss": "loss of the best row",
    "loss": "loss of the row",
}
"""Diagnostics that are printed, and what they are."""
TEST = ("test", "test_metrics", "test_where")
"""Options of the table on which predictions are judged."""
PhaseSlashDomain = str
"""`0/<domain>`, `1/<domain>`, ...: a domain in a phase of several."""
MOST_NAMED = 20
"""More losses of one weight than this are counted, not named."""


def fit_save_and_describe_targets(arguments: argparse.Namespace) -> str:
    """The mixture that a finder finds for a table, for each target; `--save` keeps the fit."""
    if arguments.resamples < 0 or arguments.resamples == 1:
        raise InputError("--resamples: must be at least 2, or 0 for no uncertainty")
    if arguments.seed < 0:
        raise InputError("--seed: must not be negative")
    if arguments.save and len(arguments.target) > 1:
        raise InputError("--save: a file holds one predictor: give --target once")
    parts = [_fit_save_and_describe_target(arguments, texts) for texts in arguments.target]
    if arguments.format == "json":
        values = parts[0] if len(parts) == 1 else {"targets": parts}
        return json.dumps(values, indent=2, allow_nan=False)
    return "\n\n".join(_fit_text(part) for part in parts)


def _fit_save_and_describe_target(
    arguments: argparse.Namespace, target_texts: Sequence[str]
) -> dict[str, Any]:
    """What is said of one target, as JSON values."""
    swarm, target = options.read_swarm_and_target(arguments, target_texts)
    swarm, unread = swarm.without_unread_domains()
    finder = options.finder_of_options(arguments, target, unread)
    if arguments.at:
        swarm = loss_scaling.extrapolate_long_curves(
            swarm, options.parse_numbers(arguments.at, "--at", options.SIZES)
        )
    loss_scaling.refuse_several_sizes(swarm)
    result = fit(finder, swarm, resamples=arguments.resamples, seed=arguments.seed)
    values = {
        "finder": arguments.finder,
        "target": target,
        "rows": len(swarm.runs),
        "mixture": _by_domain_nan_as_none(swarm, result.result.weights_K),
        "standard_error": _by_domain_nan_as_none(swarm, result.standard_error),
        "low": _by_domain_nan_as_none(swarm, result.weight_quantile(0.05)),
        "high": _by_domain_nan_as_none(swarm, result.weight_quantile(0.95)),
        "epochs": _epochs_by_domain(swarm, result.result.weights_K),
        "resamples": result.fitted_resamples,
        "gain": _predicted_gain_with_interval(result),
        "interval": _loss_interval_and_coverage(result),
        "warnings": [
            *(f"no row reads {domain!r}: it gets no weight, unseen" for domain in unread),
            *result.warnings,
        ],
        "diagnostics": result.result.diagnostics,
        "kl": getattr(finder, "kl", 0.0),
    }
    if len(arguments.phases) > 1:
        values["schedule"] = schedule_rule_settings(values["mixture"], arguments.phases)
    if arguments.test is not None:
        test = _read_test_swarm(arguments, swarm)
        values["test"] = _scores_on_test_swarm(test, swarm, finder, result, arguments.seed)
    if arguments.save is not None:
        record = saved_predictors.predictor_record(arguments.finder, finder, swarm, result.result)
        try:
            arguments.save.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"--save: {error}: give another path") from None
    return values


def _epochs_by_domain(swarm: Swarm, weights_K: Floats) -> dict[str, float | None] | None:
    """How often the mixture reads each domain's text; None where that is not known."""
    goal = swarm.final_or_common_inventory()
    return None if goal is None else _by_domain_nan_as_none(swarm, goal.epochs(weights_K))


def _by_domain_nan_as_none(swarm: Swarm, values_K: Floats) -> dict[str, float | None]:
    values = [None if np.isnan(value) else value for value in values_K.tolist()]
    return dict(zip(swarm.domains, values, strict=True))


def schedule_rule_settings(
    exposure_by_phase_and_domain: Mapping[PhaseSlashDomain, float], phases: Sequence[float]
) -> dict[str, Any]:
    """Settings of the rule `schedule` for exposures in phases."""
    points: list[dict[str, float]] = [{} for _ in phases]
    for name, exposure in exposure_by_phase_and_domain.items():
        phase, _, domain = name.partition("/")
        points[int(phase)][domain] = exposure / (phases[int(phase)] / sum(phases))
    at = np.concatenate([[0.0], np.cumsum(phases)[:-1] / sum(phases)])
    return {"rule": "schedule", "points": points, "at": at.tolist()}


def _predicted_gain_with_interval(result: Fit) -> dict[str, float] | None:
    """By how much the mixture is predicted to lower the loss of equal weights, with 90 %."""
    diagnostics = result.result.diagnostics
    if "predicted_loss" not in diagnostics or len(result.gain_S) < 2:
        return None
    low, high = np.quantile(result.gain_S, [0.05, 0.95]).tolist()
    value = diagnostics["predicted_loss_uniform"] - diagnostics["predicted_loss"]
    return {"value": value, "low": low, "high": high}


def _loss_interval_and_coverage(result: Fit) -> dict[str, float] | None:
    """Where a run of the mixture would end, and how often such intervals held; None without."""
    found = result.result
    if result.intervals is None or found.predictor is None:
        return None
    half = float(result.intervals.half_widths(found.predictor, found.weights_K[None])[0])
    predicted = found.diagnostics["predicted_loss"]
    return {
        "level": conformal_intervals.LEVEL,
        "low": predicted - half,
        "high": predicted + half,
        "coverage": result.intervals.coverage,
        "of": result.intervals.runs,
    }


def _read_test_swarm(arguments: argparse.Namespace, swarm: Swarm) -> Swarm:
    """The runs of the table `--test`, of which none may read what no run of the fit's does."""
    test, _ = options.swarm_of_options(arguments, swarm.losses, TEST).without_unread_domains()
    loss_scaling.refuse_several_sizes(test, "--test-where")
    if further := [domain for domain in test.domains if domain not in swarm.domains]:
        raise InputError(
            f"{arguments.test}: its runs read {', '.join(further)}, but no run of the fit does: "
            "leave those rows out"
        )
    return test


def _scores_on_test_swarm(
    test: Swarm, swarm: Swarm, finder: SwarmFinder, result: Fit, seed: int
) -> dict[str, Any]:
    """Predictions for the test's runs, judged by their mixtures' mean losses."""
    read_NxJ, loss_NxM = test.weights_and_losses()
    weights_NxK = test.widen_columns(read_NxJ, swarm.domains)
    assert result.result.predictor is not None
    epochs_NxK = test.epochs_of_runs()
    if epochs_NxK is not None:
        epochs_NxK = test.widen_columns(epochs_NxK, swarm.domains)
    predicted_N = result.result.predictor.losses(weights_NxK, epochs_NxK)
    # The settings, `target` among them, are those of the finder's class.
    actual_N = loss_NxM @ swarm.target_weights(cast(Any, finder).target)
    # Runs of one mixture have one prediction: as many of them would narrow the intervals.
    mixture_N = cross_validation.mixture_of_each_run(weights_NxK)
    runs_M = np.bincount(mixture_N)
    predicted_M, actual_M = (np.bincount(mixture_N, n) / runs_M for n in (predicted_N, actual_N))
    judged = prediction_scores.score_predictions(predicted_M, actual_M, seed=seed)
    # No interval of runs of one size holds those of another.
    sizes = [(one.runs[0].parameters, one.runs[0].tokens) for one in (swarm, test)]
    if result.intervals is not None and sizes[0] == sizes[1]:
        half_N = result.intervals.half_widths(result.result.predictor, weights_NxK)
        judged["coverage"] = float((np.abs(predicted_N - actual_N) <= half_N).mean())
    return judged


def _target_text(weights: Mapping[str, float]) -> str:
    if len(weights) > MOST_NAMED and len(set(weights.values())) == 1:
        return f"the mean of {len(weights)} losses"
    return " ".join(f"{name}={weight:g}" for name, weight in weights.items())


def _fit_text(values: dict[str, Any]) -> str:
    target, domains = _target_text(values["target"]), len(values["mixture"])
    lines = [f"{values['finder']}: {values['rows']} rows, {domains} domains, target {target}", ""]
    lines += [*_mixture_table(values), ""]
    if values["resamples"]:
        lines.append(f"error, 5 % and 95 %: of {values['resamples']} tables of drawn mixtures")
    for name, words in SAID.items():
        if isinstance(value := values["diagnostics"].get(name), float):
            lines.append(f"{words}: {value:.4g}")
    if kl := values["kl"]:
        lines.append(
            f"held near its prior, equal weights unless set, by kl {kl:g} (--set kl=0: not)"
        )
    if told := values.get("schedule"):
        lines.append(f"as a method: {json.dumps(told)}")
    if gain := values["gain"]:
        lines.append(
            f"predicted gain over equal weights: {gain['value']:.4g} "
            f"({gain['low']:.4g} to {gain['high']:.4g})"
        )
    if interval := values["interval"]:
        lines.append(
            f"{interval['level']:.0%} of runs of the mixture end between {interval['low']:.4g} and "
            f"{interval['high']:.4g}, if they are of the rows' size and mixtures come as the rows' "
            f"did: such intervals held {interval['coverage']:.0%} of {interval['of']} held-out rows"
        )
    elif "held_out_rmse" in values["diagnostics"]:
        lines.append("no interval: the mixtures are too few, or the runs read other epochs")
    if test := values.get("test"):
        lines += _test_scores_lines(test)
    return "\n".join(lines + [f"WARNING: {warning}" for warning in values["warnings"]])


def _mixture_table(values: dict[str, Any]) -> list[str]:
    """A line for each domain: its weight, and what else is known of it."""
    columns = {"mixture": "weight", "standard_error": " error", "low": "   5 %", "high": "  95 %"}
    if not values["resamples"]:
        columns = {"mixture": "weight"}
    if values["epochs"] is not None:
        columns["epochs"] = "epochs"
    width = max(len("domain"), *map(len, values["mixture"]))
    lines = [f"{'domain':<{width}}  {'  '.join(columns.values())}"]
    for name in values["mixture"]:
        shown = (values[column][name] for column in columns)
        cells = (f"  {float('nan') if v is None else v:6.4f}" for v in shown)
        lines.append(f"{name:<{width}}" + "".join(cells))
    return lines


def _test_scores_lines(test: Mapping[str, Any]) -> list[str]:
    lines = [f"on {test['runs']} test mixtures, with 95 % over them:"]
    for name, words in (
        ("spearman", "rank correlation"),
        ("regret", "loss of the one predicted best, above the lowest"),
        ("slope", "measured nats per predicted nat"),
    ):
        one = test[name]
        lines.append(f"  {words}: {one['value']:.3f} ({one['low']:.3f} to {one['high']:.3f})")
    lines.append(f"  that of one at random: {test['regret_of_chance']:.3f}")
    if "coverage" in test:
        lines.append(f"  within their intervals of 90 %: {test['coverage']:.0%}")
    return lines


def _parse_and_normalise_mixture(arguments: argparse.Namespace, swarm: Swarm) -> Floats:
    """The mixture [K] that is asked for; each phase has its share of the run."""
    given = options.parse_numbers(arguments.mixture, "--mixture", swarm.domains)
    weights, count = dict.fromkeys(swarm.domains, 0.0) | given, len(swarm.domains)
    width = count // len(swarm.phases)
    phases = [swarm.domains[at : at + width] for at in range(0, count, width)]
    parts = [
        by_domain.shares_in_order({d: weights[d] for d in one}, one, "--mixture") for one in phases
    ]
    shares = swarm.phase_shares()
    return np.concatenate([s * part for s, part in zip(shares, parts, strict=True)])


def predicted_loss_text(arguments: argparse.Namespace) -> str:
    """The loss that a saved predictor gives a mixture."""
    kept = saved_predictors.load_predictor(arguments.predictor)
    weights_K = _parse_and_normalise_mixture(arguments, kept.swarm)
    losses = kept.predictor.losses(
        np.stack([weights_K, kept.optimum_K, kept.swarm.uniform_weights()])
    )
    mixture = _by_domain_nan_as_none(kept.swarm, weights_K)
    half = None
    if kept.scale is not None:
        uncertainty_1 = conformal_intervals.uncalibrated_uncertainty_or_ones(
            kept.predictor, weights_K[None]
        )
        half = kept.scale * float(uncertainty_1[0])
    values = {
        "mixture": mixture,
        "loss": float(losses[0]),
        "loss_of_optimum": float(losses[1]),
        "loss_of_equal_weights": float(losses[2]),
        "held_out_rmse": kept.held_out_rmse,
        "half_width": half,
        "extrapolates": cross_validation.is_outside_hull(weights_K, kept.measured_NxK),
    }
    if arguments.format == "json":
        return json.dumps(values, indent=2)
    read = ", ".join(f"{name} {weight:.4g}" for name, weight in mixture.items() if weight)
    lines = [
        f"mixture, as shares: {read}",
        f"predicted loss: {losses[0]:.4f} (typical error {kept.held_out_rmse:.4f}"
        + (", no interval)" if half is None else f", 90 % of runs within ± {half:.4f})"),
        f"of the mixture that was found: {losses[1]:.4f}, of equal weights: {losses[2]:.4f}",
    ]
    if values["extrapolates"]:
        lines.append("WARNING: the mixture lies outside of all averages of the measured rows")
    return "\n".join(lines)
