"""The command `try`: what a finder is worth, on public runs that come with the package.

A law is fitted to RegMix's 512 runs of 1M parameters. It then ranks the mixtures of 64 models of 1B
parameters, which it has not seen, and the ranking is compared with their measured losses.

Shapes: K domains, M losses, N models of 1B parameters.
"""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError, refuse_without_package
from pike_mixing.finders import build_finder, prediction_scores, saved_predictors, swarm_table
from pike_mixing.mixtures import explore
from pike_mixing.swarms import catalogue

FINDER = "mixing-law"
TARGETS = {"pile_cc": "web text", "mean of 13 losses": "mean of 13 domains"}
"""RegMix's own target, web text, and the harder one, all that it measures: with their columns."""
MEASURES = (
    ("spearman", "rank correlation of predicted and measured losses", 3, 1),
    ("regret", "loss of the chosen model minus the lowest of the 64", 3, 1),
    ("worth", "loss of the chosen model minus the mean of the 64", 3, -1),
    ("slope", "slope: measured difference per predicted difference", 2, 1),
)
"""Rows: the score, its name, its decimals and its sign in the row."""
LABEL = 51
"""Characters of the names of rows."""
WIDTH, HEIGHT = 56, 14
"""Characters of the picture inside its frame."""


def add_command(subparsers: Any) -> None:
    """Adds the command `try`."""
    about = "a finder on public runs: from 1M to 1B parameters, in seconds"
    command = subparsers.add_parser("try", help=about, description=__doc__.split("\n\n")[1])
    command.set_defaults(run=run_and_describe_trial)
    about = (
        "folder for law.json, the fitted law, and mixture.html, the page of `explore` (default: "
        "%(default)s)"
    )
    command.add_argument("--out", type=Path, default=Path("mixture-trial"), help=about)
    command.add_argument("--seed", type=int, default=0, help="of the draws behind the intervals")
    command.add_argument("--format", choices=("text", "json"), default="text")


@dataclasses.dataclass(frozen=True)
class Trial:
    """The law's predictions and the measured losses, for each of `TARGETS`."""

    domains: tuple[str, ...]
    proxies: int
    """Runs of 1M that the law is fitted to."""
    weights_NxK: Floats
    """Mixtures of the models of 1B."""
    predicted_2xN: Floats
    measured_2xN: Floats
    scores: tuple[dict[str, Any], ...]
    chosen_K: Floats
    """Mixture of the model of 1B whose mean loss is predicted to be the lowest."""
    optimum_K: Floats
    """The mixture of lowest predicted mean loss, held near equal shares."""
    predicted_gain: float
    """How far below that of equal shares its mean loss is predicted, nats at 1M."""
    record: dict[str, Any]
    """The saved law of the mean of all losses."""


def judge_law_on_public_models(bootstrap_seed: int = 0) -> Trial:
    """Fits the law to the runs of 1M, and judges it on those of 1B.

    Raises:
        InputError: scipy is not installed.
    """
    refuse_without_package(
        "try", "scipy", ", or name the extra: `uvx --from './pike_mixing[try]' pike-mixing try`"
    )
    path = catalogue.packaged_table_or_path(Path("regmix"))
    proxies = swarm_table.read_swarm(path, where={"set": "train", "parameters": "1e6"})
    models = swarm_table.read_swarm(path, where={"parameters": "1e9"})
    finder: Any = build_finder.build_finder(FINDER, {}, "try")
    result = finder.find(proxies)
    weights_NxK, loss_NxM = models.weights_and_losses()
    targets = (dict.fromkeys(proxies.losses, 0.0) | {"pile_cc": 1.0}, None)
    # Each loss has a law of its own, which no target changes.
    record = result.predictor.record()
    aimed = [dataclasses.replace(finder, target=t).restore(proxies, record) for t in targets]
    predicted_2xN = np.stack([predictor.losses(weights_NxK) for predictor in aimed])
    measured_2xN = np.stack([loss_NxM @ models.target_weights(t) for t in targets])
    pairs = zip(predicted_2xN, measured_2xN, strict=True)
    scores = [prediction_scores.score_predictions(*p, seed=bootstrap_seed) for p in pairs]
    diagnostics = result.diagnostics
    return Trial(
        domains=proxies.domains,
        proxies=len(proxies.runs),
        weights_NxK=weights_NxK,
        predicted_2xN=predicted_2xN,
        measured_2xN=measured_2xN,
        scores=tuple(scores),
        chosen_K=weights_NxK[predicted_2xN[1].argmin()],
        optimum_K=result.weights_K,
        predicted_gain=diagnostics["predicted_loss_uniform"] - diagnostics["predicted_loss"],
        record=saved_predictors.predictor_record(FINDER, finder, proxies, result),
    )


def run_and_describe_trial(arguments: argparse.Namespace) -> str:
    """What the trial found, as text or JSON.

    Raises:
        InputError: a wrong option, a file that cannot be written, or what
            `judge_law_on_public_models` refuses.
    """
    if arguments.seed < 0:
        raise InputError("--seed: must not be negative")
    found = judge_law_on_public_models(arguments.seed)
    written = _write_and_list_law_and_page(found, arguments.out)
    if arguments.format == "text":
        return "\n".join([*_trial_lines(found), *written])
    values = {
        "proxies": found.proxies,
        "targets": dict(zip(TARGETS, found.scores, strict=True)),
        "mixture": dict(zip(found.domains, found.optimum_K.tolist(), strict=True)),
        "predicted_gain": found.predicted_gain,
        "chosen_of_measured": dict(zip(found.domains, found.chosen_K.tolist(), strict=True)),
    }
    return json.dumps(values, indent=2, allow_nan=False)


def _trial_lines(trial: Trial) -> list[str]:
    N, names = len(trial.weights_NxK), [f"{name:>26}" for name in TARGETS.values()]
    lines = [
        f"Learned from {trial.proxies} public models of 1M parameters (from the paper RegMix), "
        "each trained on a different mixture.",
        f"Tested on {N} public models of 1B parameters, for two losses: on web text (left), and "
        "the mean of 13 domains (right).",
        "Both losses of every model are predicted from its mixture. In each column, the model "
        "with the lowest prediction is chosen.",
        "Losses are cross-entropies per token, in natural logarithms (nats). The ranges are 95 % "
        "bootstrap intervals.",
        "",
        f"{'':<{LABEL}}{''.join(names)}",
    ]
    for key, words, digits, sign in MEASURES:
        line = f"{words:<{LABEL}}"
        for one in trial.scores:
            of_row = ("value", *("low", "high")[::sign])
            value, low, high = (f"{sign * one[key][name]:.{digits}f}" for name in of_row)
            line += f"{value} ({low} to {high})".rjust(26)
        lines.append(line)
    slope = trial.scores[1]["slope"]
    worth = [trial.predicted_gain * slope[name] for name in ("value", "low", "high")]
    return [
        *lines,
        "",
        "Loss on web text (pile_cc). Vertical: the measured losses of the 64 models. Horizontal: "
        "the losses predicted for models of 1M.",
        *draw_scatter(trial.predicted_2xN[0], trial.measured_2xN[0]),
        "",
        "Mixtures for the mean of 13 domains:",
        "",
        *_mixture_lines(trial),
        "",
        "The mixture in the column `new` has the lowest predicted loss. For models of 1M, it is "
        f"{trial.predicted_gain:.3f} below the loss of equal shares.",
        f"For models of 1B, the difference is about {worth[0]:.3f} ({worth[1]:.3f} to "
        f"{worth[2]:.3f}). This is an estimate: nobody has trained a model of 1B on this mixture.",
        "The column `of 64` is the mixture of the chosen model, whose loss was measured.",
    ]


def _mixture_lines(trial: Trial) -> list[str]:
    chosen_K, width = trial.chosen_K, max(map(len, trial.domains))
    lines = [f"{'domain':<{width}}   new  of 64"]
    order_K = np.argsort(-trial.optimum_K, kind="stable").tolist()
    return lines + [
        f"{trial.domains[k]:<{width}}  {trial.optimum_K[k]:.3f}  {chosen_K[k]:.3f}  "
        + "#" * round(100 * trial.optimum_K[k])
        for k in order_K
    ]


def draw_scatter(predicted_N: Floats, measured_N: Floats) -> list[str]:
    """Predictions (across) against measurements (up) as characters.

    A cell holds `.` for one model, `:` for two, `#` for more, and X where the model is that was
    predicted best.
    """
    column_N, row_N = (_cell_indices(v, n) for v, n in ((predicted_N, WIDTH), (measured_N, HEIGHT)))
    count_YxX = np.zeros((HEIGHT, WIDTH), dtype=np.int64)
    np.add.at(count_YxX, (row_N, column_N), 1)
    cells = np.array(list(" .:#"))[count_YxX.clip(max=3)]
    best = int(predicted_N.argmin())
    cells[row_N[best], column_N[best]] = "X"
    low, high = f"{measured_N.min():.2f}", f"{measured_N.max():.2f}"
    labels = {HEIGHT - 1: high, 0: low}
    width = max(len(low), len(high))
    left, right = f"{predicted_N.min():.2f}", f"{predicted_N.max():.2f}"
    return [
        "`.` is one model, `:` is two, `#` is three or more, `X` is the chosen model.",
        *(f"{labels.get(y, ''):>{width}} |{''.join(cells[y])}" for y in reversed(range(HEIGHT))),
        " " * width + " +" + "-" * WIDTH,
        f"{'':{width}}  {left}{right:>{WIDTH - len(left)}}",
    ]


def _cell_indices(value_N: Floats, count: int) -> Any:
    """Number of the cell of each value, from the lowest value to the highest."""
    part_N = (value_N - value_N.min()) / np.ptp(value_N)
    return np.minimum((part_N * count).astype(np.int64), count - 1)


def _write_and_list_law_and_page(trial: Trial, folder: Path) -> list[str]:
    law, html = folder / "law.json", folder / "mixture.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        law.write_text(json.dumps(trial.record, indent=1) + "\n", encoding="utf-8")
        html.write_text(explore.render_page(law, budget_override=25e9), encoding="utf-8")
    except OSError as error:
        raise InputError(f"--out: {error}: give another folder") from None
    return [
        "",
        f"{law}: the fitted law, for `predict` and `explore`",
        f"{html}: sliders for its mixture; open it in a browser",
    ]
