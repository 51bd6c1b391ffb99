"""The command `bench`: methods that predict losses of mixtures, on frozen folds of public runs.

A method is one Python file with two functions of NumPy arrays:

    fit(weights, losses, epochs)      anything, from weights [N, K], losses [N, M] in nats per
                                      token and epochs [N, K], None where a table tells none
    predict(fitted, weights, epochs)  losses [S, M]; or these and how unsure each is, spreads [S, M]

or the name of a finder. Mixtures of a table are dealt into blocks by the SHA-256 of their numbers,
the same for everybody; a method is fitted to the first n mixtures of a block and predicts the next
block, each loss and the mean of all. Intervals of 90 % are calibrated for every method alike, on
five parts of the n runs (`intervals`), and widen with the spreads of a method that tells them.

    spearman  rank correlation
    regret    loss of the run predicted best, above the lowest, as part of that of any run
    accuracy  how often the right one of two runs is chosen
    coverage  share of runs within their intervals
    width     of the intervals, over the standard deviation of the losses

`+-` is half of the 95 % interval over folds (Student's t) and targets. A sealed part, RegMix's runs
of 1B and a table of Olmix's, is opened by `--open-sealed WHO`, which first writes a line of a log.

Shapes: N runs, S runs to predict, K domains, M losses, T = M + 1 targets, F folds.
"""

import argparse
import csv
import dataclasses
import datetime
import hashlib
import importlib.util
import itertools
import json
import multiprocessing
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError, refuse, refuse_without_package
from pike_mixing.finders import (
    FINDERS,
    build_finder,
    conformal_intervals,
    cross_validation,
    exponential_law,
    prediction_scores,
    swarm_table,
)
from pike_mixing.finders.interface import FinderResult, Proxy, Swarm
from pike_mixing.setting_messages import unknown_name_message
from pike_mixing.swarms import catalogue

SIZE = 128
"""Mixtures of a block; of tables with fewer than two such blocks, half of theirs."""
RUNS = (32, 64, 128)
"""Numbers of runs that methods are fitted to."""
PARTS = 5
"""Of the runs of a fit, for intervals."""
TARGETS = 13
"""Losses of a table at most: of more, as many, evenly among the columns."""
MEAN = "mean of all"
RANKED = ("spearman", "regret", "accuracy")
MEASURES = (*RANKED, "coverage", "width")
PERMUTED = "exposure-permuted"
METHODS = (
    "mixing-law",
    "regmix",
    "exposure-law",
    "scheffe",
    "gaussian-process",
    "linear",
    PERMUTED,
)
"""Those of the board; of the last every domain has the text of another."""
BOARD = Path(__file__).parent / "bench_board.json"
SEALED = ("regmix at 1B", "olmix-reuse")
LEVEL = 0.05
LOG = ("date", "who", "method", "sha256", "opened")

BoardEntry = dict[str, Any]
"""The scores of one method, as the board and `--save` hold them."""


@dataclasses.dataclass(frozen=True)
class Fold:
    """Runs to fit, and runs of other mixtures to predict."""

    train: Swarm
    tests: dict[str, Swarm]
    """By table and size."""
    alike: str | None
    """Which of them is of the size of the runs to fit: no interval can hold those of another."""


class BenchFinder:
    """A finder of the package, as a method."""

    def __init__(self, name: str) -> None:
        """Takes a name of `METHODS`."""
        self.name = name

    def fit(self, weights_NxK: Floats, loss_NxM: Floats, epochs_NxK: Floats | None) -> Any:
        """All losses at once."""
        if self.name == "linear":
            return np.linalg.lstsq(weights_NxK, loss_NxM)[0]
        if self.name == "mixing-law":
            K = weights_NxK.shape[1]
            if np.linalg.matrix_rank(weights_NxK, tol=1e-6) < K or len(weights_NxK) < K + 1:
                raise InputError(f"the law needs more than {K} runs that span all directions")
            return exponential_law.fit(weights_NxK, loss_NxM, starts=4, huber=0.02)
        if self.name == "regmix":
            return _fit_trees_per_loss(weights_NxK, loss_NxM)
        kind = build_finder.finder_class("exposure-law" if self.name == PERMUTED else self.name)
        return kind().fit_model(
            weights_NxK, self._epochs_permuted_if_asked(weights_NxK, epochs_NxK), loss_NxM
        )

    def predict(
        self, fitted: Any, weights_SxK: Floats, epochs_SxK: Floats | None
    ) -> Floats | tuple[Floats, Floats]:
        """Losses, and spreads of a Gaussian process."""
        if self.name == "linear":
            return np.asarray(weights_SxK @ fitted)
        if self.name == "mixing-law":
            return np.asarray(fitted.losses(weights_SxK))
        if self.name == "regmix":
            return np.stack([trees.losses(weights_SxK) for trees in fitted], axis=1)
        epochs_SxK = self._epochs_permuted_if_asked(weights_SxK, epochs_SxK)
        losses_SxM: Floats = fitted.losses(weights_SxK, epochs_SxK)
        if self.name == "gaussian-process":
            return losses_SxM, fitted.standard_deviations(weights_SxK)
        return losses_SxM

    def _epochs_permuted_if_asked(
        self, weights_SxK: Floats, epochs_SxK: Floats | None
    ) -> Floats | None:
        """Epochs, or those of every domain with the text of another."""
        if self.name != PERMUTED or epochs_SxK is None:
            return epochs_SxK
        read = weights_SxK > 0
        per_weight_K = np.divide(epochs_SxK, weights_SxK, where=read, out=0 * weights_SxK).max(0)
        return weights_SxK * np.random.default_rng(0).permutation(per_weight_K)


def _fit_trees_per_loss(weights_NxK: Floats, loss_NxM: Floats) -> list[Any]:
    """RegMix's trees for each loss, as many as predict the mean best."""
    M = loss_NxM.shape[1]
    names = tuple(map(str, range(M)))
    runs = [
        Proxy(f"{n:04}", w, loss)
        for n, (w, loss) in enumerate(zip(weights_NxK, loss_NxM, strict=True))
    ]
    swarm = Swarm(tuple(map(str, range(weights_NxK.shape[1]))), runs, names)
    kind = build_finder.finder_class("regmix")
    count = kind().fit(swarm).booster.num_trees()
    like = FinderResult(swarm.uniform_weights(), {"trees": count})
    shares = [dict(zip(names, row, strict=True)) for row in np.eye(M).tolist()]
    return [kind(target=target).fit(swarm, like) for target in shares]


def load_bench_method(name_or_file: str) -> Any:
    """What fits and predicts: a finder of `METHODS`, or the module of a file.

    Raises:
        InputError: there is neither, or the file has not both functions.
    """
    if name_or_file in METHODS:
        return BenchFinder(name_or_file)
    path = Path(name_or_file)
    if path.suffix != ".py" or not path.is_file():
        unknown = unknown_name_message(name_or_file, METHODS, "method")
        raise InputError(f"{unknown}; or give a file NAME.py")
    spec = importlib.util.spec_from_file_location("benched", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if missing := [n for n in ("fit", "predict") if not callable(getattr(module, n, None))]:
        raise InputError(f"{path} has no function {missing[0]}: write one (`bench --help`)")
    return module


def full_blocks_in_hash_order(weights_NxK: Floats) -> list[Ints]:
    """Blocks of rows in the order of the SHA-256 of their mixtures' numbers, without a rest."""
    texts = [",".join(f"{weight:.6f}" for weight in row) for row in weights_NxK]
    order = sorted(range(len(texts)), key=lambda n: hashlib.sha256(texts[n].encode()).digest())
    size = min(SIZE, len(order) // 2)
    return [np.array(order[at : at + size]) for at in range(0, len(order) - size + 1, size)]


def make_next_block_folds(
    swarm_name: str, swarm: Swarm, other_sizes: Mapping[str, Swarm] | None = None
) -> list[Fold]:
    """Each block's runs to fit and the next's to predict; also the same mixtures at other sizes."""
    weights_NxK, _ = swarm.weights_and_losses()
    blocks, result = full_blocks_in_hash_order(weights_NxK), []
    for block, test in zip(blocks, [*blocks[1:], blocks[0]], strict=True):
        tests = {swarm_name: _select_runs(swarm, test)}
        held = {tuple(weights_NxK[n].round(6)) for n in test}
        for name, other in (other_sizes or {}).items():
            mixtures = other.weights_and_losses()[0].round(6)
            rows = [n for n, weights_K in enumerate(mixtures) if tuple(weights_K) in held]
            tests[name] = _select_runs(other, np.array(rows))
        result.append(Fold(_select_runs(swarm, block), tests, swarm_name))
    return result


def _select_runs(swarm: Swarm, run_indices: Ints) -> Swarm:
    return dataclasses.replace(swarm, runs=[swarm.runs[n] for n in run_indices])


def _keep_evenly_spaced_losses(swarm: Swarm) -> Swarm:
    """At most `TARGETS` losses, evenly among the columns."""
    M = len(swarm.losses)
    kept = np.unique(np.linspace(0, M - 1, min(M, TARGETS)).round().astype(int))
    runs = [
        dataclasses.replace(run, loss_K=run.loss_K[kept])
        for run in swarm.runs
        if run.loss_K is not None
    ]
    return dataclasses.replace(swarm, runs=runs, losses=tuple(swarm.losses[m] for m in kept))


def unsealed_folds(further_tables: Sequence[Path]) -> list[Fold]:
    """Of RegMix's runs of 1M, with the same mixtures at 60M; and of fetched tables.

    Raises:
        InputError: one of the tables is sealed.
    """
    result = make_next_block_folds(
        "regmix at 1M", _read_regmix_swarm("1e6"), {"regmix at 60M": _read_regmix_swarm("6e7")}
    )
    for one in further_tables:
        name = one.name.partition(".")[0]
        if name in SEALED:
            raise InputError(f"{one} is sealed: --open-sealed WHO writes the log and opens it")
        result += make_next_block_folds(
            name, _keep_evenly_spaced_losses(swarm_table.read_swarm(one))
        )
    return result


def sealed_folds(further_tables: Sequence[Path]) -> list[Fold]:
    """Of RegMix's runs of 1B, by fits to blocks of 1M; and of tables that were fetched."""
    small, large = _read_regmix_swarm("1e6"), _read_regmix_swarm("1e9")
    blocks = full_blocks_in_hash_order(small.weights_and_losses()[0])
    result = [Fold(_select_runs(small, block), {SEALED[0]: large}, None) for block in blocks]
    for one in further_tables:
        result += make_next_block_folds(
            one.name.partition(".")[0], _keep_evenly_spaced_losses(swarm_table.read_swarm(one))
        )
    return result


def _read_regmix_swarm(parameter_count: str) -> Swarm:
    path = catalogue.packaged_table_or_path(Path("regmix"))
    return swarm_table.read_swarm(path, where={"parameters": parameter_count})


def score_on_test_swarms(
    name_or_file: str, fold: Fold, train_runs: int
) -> dict[str, dict[str, Any]]:
    """By test swarm the measures of one method, each of T targets; or why it `failed`."""
    train = _select_runs(fold.train, np.arange(train_runs))
    given = (*train.weights_and_losses(), train.epochs_of_runs())
    method, begun = load_bench_method(name_or_file), time.monotonic()
    result: dict[str, dict[str, Any]] = {}
    try:
        fitted = method.fit(*given)
        for place, test in fold.tests.items():
            weights_SxK, actual_SxM = test.weights_and_losses()
            predicted_SxT, spread_SxT = _predict_losses_and_spreads_or_ones(
                method, fitted, weights_SxK, test.epochs_of_runs(), len(train.losses)
            )
            half_SxT = None
            if place == fold.alike:
                half_SxT = spread_SxT * _half_widths_per_unit_spread(method, *given)
            result[place] = _prediction_metrics(
                predicted_SxT, _append_mean_column(actual_SxM), half_SxT
            )
    except Exception as error:  # Anybody's method may fail in any way: the board says how.
        return {place: {"failed": f"{type(error).__name__}: {error}"} for place in fold.tests}
    seconds = round(time.monotonic() - begun, 2)
    return {place: {**found, "seconds": seconds} for place, found in result.items()}


def _prediction_metrics(
    predicted_SxT: Floats, actual_SxT: Floats, half_width_SxT: Floats | None
) -> dict[str, Any]:
    actual_TxS, predicted_TxS = actual_SxT.T, predicted_SxT.T
    chance_T = actual_TxS.mean(axis=1) - actual_TxS.min(axis=1)
    found = {
        "spearman": prediction_scores.correlations(
            prediction_scores.ranks(predicted_TxS), prediction_scores.ranks(actual_TxS)
        ),
        "regret": prediction_scores.regret_of_choice(predicted_TxS, actual_TxS) / chance_T,
        "accuracy": pairwise_accuracies(predicted_TxS, actual_TxS),
    }
    if half_width_SxT is not None:
        found["coverage"] = (np.abs(predicted_SxT - actual_SxT) <= half_width_SxT).mean(axis=0)
        found["width"] = 2 * half_width_SxT.mean(axis=0) / actual_SxT.std(axis=0)
    # A constant prediction orders nothing.
    return {name: np.nan_to_num(value_T).round(4).tolist() for name, value_T in found.items()}


def pairwise_accuracies(predicted_TxS: Floats, actual_TxS: Floats) -> Floats:
    """How often the run of two with the lower loss is predicted to have it; ties count half."""
    above = np.triu_indices(actual_TxS.shape[1], 1)
    signs = [np.sign(x[:, above[0]] - x[:, above[1]]) for x in (predicted_TxS, actual_TxS)]
    return np.asarray((1 + signs[0] * signs[1]).mean(axis=1) / 2)


def _append_mean_column(loss_SxM: Floats) -> Floats:
    return np.column_stack([loss_SxM, loss_SxM.mean(axis=1)])


def _predict_losses_and_spreads_or_ones(
    method: Any, fitted: Any, weights_SxK: Floats, epochs_SxK: Floats | None, M: int
) -> tuple[Floats, Floats]:
    """Losses and spreads [S, T] of a fit to M losses."""
    told = method.predict(fitted, weights_SxK, epochs_SxK)
    losses, spreads = told if isinstance(told, tuple) else (told, np.ones_like(told))
    wanted = (len(weights_SxK), M)
    for what, values in (("losses", losses), ("spreads", spreads)):
        if np.shape(values) != wanted or not np.isfinite(values).all():
            raise InputError(f"predict: {what} of shape {np.shape(values)}, not finite {wanted}")
    return _append_mean_column(np.asarray(losses)), _append_mean_column(np.asarray(spreads))


def _half_widths_per_unit_spread(
    method: Any, weights_NxK: Floats, loss_NxM: Floats, epochs_NxK: Floats | None
) -> Floats:
    """What spreads are multiplied by [T], from the errors on parts of the runs."""
    M = loss_NxM.shape[1]
    score_NxT = np.empty((len(loss_NxM), M + 1))
    for rest, part in cross_validation.make_folds(weights_NxK, PARTS, seed=0):
        seen, new = (None, None) if epochs_NxK is None else (epochs_NxK[rest], epochs_NxK[part])
        fitted = method.fit(weights_NxK[rest], loss_NxM[rest], seen)
        given = method, fitted, weights_NxK[part], new, M
        predicted, spread = _predict_losses_and_spreads_or_ones(*given)
        score_NxT[part] = np.abs(predicted - _append_mean_column(loss_NxM[part])) / spread
    mixtures = len(np.unique(weights_NxK, axis=0))
    return np.array(
        [conformal_intervals.score_quantile(score_N, mixtures) for score_N in score_NxT.T]
    )


def make_board_entry(name_or_file: str, folds: Sequence[Fold], jobs: int) -> BoardEntry:
    """What a method scores: by place and number of runs, measures [F, T]."""
    load_bench_method(name_or_file)
    sizes = [(fold, runs) for fold in folds for runs in RUNS if runs <= len(fold.train.runs)]
    work = [(name_or_file, fold, runs) for fold, runs in sizes]
    os.environ["OMP_NUM_THREADS"] = "1"
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        found = pool.starmap(score_on_test_swarms, work, chunksize=1)
    cells: dict[str, Any] = {}
    for (fold, runs), by_place in zip(sizes, found, strict=True):
        for place, one in by_place.items():
            cell = cells.setdefault(f"{place}|{runs}", {"targets": [*fold.train.losses, MEAN]})
            for measure, value in one.items():
                cell.setdefault(measure, []).append(value)
    path, digest = Path(name_or_file), None
    if name_or_file not in METHODS:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"method": path.stem, "sha256": digest, "cells": cells}


class MeanAndHalfWidth(NamedTuple):
    """A mean over folds and targets."""

    mean: float
    half_width: float | None
    """Of its 95 % interval over both; None of a single target."""
    p: float | None
    """That it is 0."""


ScoreDifference = dict[str, Any]
"""Against which method, in which cell and measure; the difference, half its interval, p."""


def mean_over_folds_and_targets(value_FxT: Floats) -> MeanAndHalfWidth:
    """The mean with its error: folds are what seeds are elsewhere, targets what documents are."""
    from pike_mixing.comparison import mean_difference, p_values

    targets = value_FxT.shape[1]
    part = mean_difference.differences_of_sums(value_FxT, np.ones(targets), np.arange(targets))
    found = mean_difference.estimate([part])
    half_width, p = mean_difference.half_width(found), p_values.p_value(found)
    return MeanAndHalfWidth(found.difference, half_width, p)


def scores_minus_board(scores: BoardEntry, board: Sequence[BoardEntry]) -> list[ScoreDifference]:
    """A method minus each of the board, in every cell and measure that both have.

    p-values are Holm's, of all of them together.
    """
    from pike_mixing.comparison import p_values

    rows = []
    for other in board:
        for cell, measure in itertools.product(scores["cells"], RANKED):
            pair = [r["cells"].get(cell, {}).get(measure) for r in (scores, other)]
            if other["method"] == scores["method"] or None in pair or len(pair[0]) != len(pair[1]):
                continue
            # The mean of all losses is none of them.
            found = mean_over_folds_and_targets((np.array(pair[0]) - np.array(pair[1]))[:, :-1])
            about = {"against": other["method"], "cell": cell, "measure": measure}
            numbers = {"difference": found.mean, "half": found.half_width, "p": found.p}
            rows.append(about | numbers)
    for row, p in zip(rows, p_values.holm_adjusted([row["p"] for row in rows]), strict=True):
        row["p"] = p
    return rows


def add_command(subparsers: Any) -> None:
    """The command `bench`."""
    about = "score methods that predict losses of mixtures on frozen folds of public runs"
    command = subparsers.add_parser(
        "bench", help=about, description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    command.set_defaults(run=scores_text)
    about = f"NAME.py, or of {', '.join(METHODS)}; none: the board as it is"
    command.add_argument("methods", nargs="*", metavar="METHOD", help=about)
    about = "further tables: what `swarms olmix-full` and `swarms olmix-dclm` fetch"
    command.add_argument("--tables", nargs="+", type=Path, default=[], metavar="TABLE", help=about)
    command.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    command.add_argument("--save", type=Path, help="JSON file for the methods' scores")
    about = "scores of others, as --save writes them (default: the package's)"
    command.add_argument("--board", type=Path, default=BOARD, help=about)
    about = "score on the sealed part instead; your name is written into the log first"
    command.add_argument("--open-sealed", metavar="WHO", help=about)
    about = "who opened it, as CSV (default: %(default)s; this project's: benchmarks/results/)"
    command.add_argument("--log", type=Path, default=Path("sealed_openings.csv"), help=about)


def scores_text(arguments: argparse.Namespace) -> str:
    """The scores of methods, and how they differ from the board's; or the board's scores."""
    if arguments.jobs < 1:
        raise InputError("--jobs: must be at least 1")
    refuse_without_package("bench", "scipy")
    lacking = map(
        build_finder.missing_finder_package_message,
        (name for name in arguments.methods if name in FINDERS),
    )
    refuse([problem for problem in lacking if problem])
    board = [] if arguments.open_sealed else _read_board(arguments.board)
    if not arguments.methods:
        for option in ("open_sealed", "tables", "save"):
            if getattr(arguments, option):
                asked = f"--{option.replace('_', '-')}"
                raise InputError(f"{asked}: name the method that is scored, before the options")
        return _scores_table(board)
    if arguments.open_sealed:
        _log_sealed_opening(arguments)
        parts = sealed_folds(arguments.tables)
    else:
        parts = unsealed_folds(arguments.tables)
    found = [make_board_entry(name, parts, arguments.jobs) for name in arguments.methods]
    if arguments.save is not None:
        try:
            arguments.save.write_text(json.dumps({"methods": found}) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"--save: {error}: give another path") from None
    compared = [_significant_differences_text(one, board) for one in found if board]
    return "\n\n".join([_scores_table(found), *compared])


def _read_board(path: Path) -> list[BoardEntry]:
    try:
        return list(json.loads(path.read_text(encoding="utf-8"))["methods"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"--board: {path} holds no scores ({error}): `--save` writes them"
        ) from None


def _log_sealed_opening(arguments: argparse.Namespace) -> None:
    """A line for each method, before anything is read."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    opened = "; ".join([SEALED[0], *(one.name for one in arguments.tables)])
    rows = []
    for name in arguments.methods:
        load_bench_method(name)
        content = b"" if name in METHODS else Path(name).read_bytes()
        digest = hashlib.sha256(content).hexdigest() if content else "of the package"
        rows.append([now, arguments.open_sealed, name, digest, opened])
    try:
        begun = not arguments.log.exists() or not arguments.log.stat().st_size
        with arguments.log.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([LOG, *rows] if begun else rows)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(f"--log: {error}: nothing was opened; give another path") from None


def _scores_table(scores_by_method: Sequence[BoardEntry]) -> str:
    """A line for each method and cell: every measure, mean over the losses."""
    lines = [f"{'method':<20}{'runs':>5}  {'':<15}" + "".join(f"{m:>16}" for m in MEASURES)]
    cells = dict.fromkeys(cell for one in scores_by_method for cell in one["cells"])
    for cell, one in itertools.product(cells, scores_by_method):
        place, _, runs = cell.partition("|")
        begin = f"{one['method']:<20}{runs:>5}  {place:<15}"
        scored = one["cells"].get(cell, {})
        if "failed" in scored:
            lines.append(f"{begin} {len(scored['failed'])} fold(s) failed: {scored['failed'][0]}")
        elif scored:
            lines.append(begin + "".join(f"{_mean_text(scored.get(m)):>16}" for m in MEASURES))
    return "\n".join(lines)


def _mean_text(value_FxT: Any) -> str:
    if value_FxT is None:
        return "none"
    found = mean_over_folds_and_targets(np.array(value_FxT)[:, :-1])
    error = "" if found.half_width is None else f" +- {found.half_width:.3f}"
    return f"{found.mean:.3f}{error}"


def _significant_differences_text(scores: BoardEntry, board: Sequence[BoardEntry]) -> str:
    """The differences that Holm's correction leaves, and how many there are."""
    rows = scores_minus_board(scores, board)
    kept = [row for row in rows if row["p"] is not None and row["p"] < LEVEL]
    lines = [
        f"{scores['method']} minus {row['against']}, {row['measure']}, "
        f"{row['cell'].replace('|', ', ')} runs: {row['difference']:+.3f} +- {row['half']:.3f} "
        f"(p {row['p']:.2g})"
        for row in kept
    ]
    first = f"{scores['method']}: {len(kept)} of {len(rows)} differences from the board have p < "
    return "\n".join([f"{first}{LEVEL:g}, after Holm's correction for all of them", *lines])
