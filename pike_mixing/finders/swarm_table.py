"""A swarm of proxy runs from a table: one's own CSV or Parquet (with pyarrow), or a public one.

A row is a run. Columns `weight/<domain>` hold its mixture, columns `loss/<name>` its losses after
the last step; `parameters` and `tokens` its size, `available/<domain>` the tokens of each domain's
text, where they are there. Other columns are read only to choose rows. Runs of one mixture are
repeats. Other names of columns can be given as patterns, with a * in the place of the domain's or
the loss's name.

Olmix's form is a pair of files: one holds the mixtures, the other the losses, a row for a run in
both, joined by a column that both have (`run`, else `index`). Where no column of a file of a pair
has the name of a weight or loss, and no pattern is given, all its columns are weights or losses.

Shapes: K domains, M losses, N rows.
"""

import contextlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError, refuse
from pike_mixing.finders.interface import Proxy, Swarm
from pike_mixing.setting_messages import unknown_name_message
from pike_mixing.swarms.catalogue import KEYS, LABELS
from pike_mixing.table_files import Columns, read_csv_or_parquet, refuse_first_problems

WEIGHT, LOSS = "weight/*", "loss/*"
"""Columns of weights and losses, where no other pattern is given."""
AVAILABLE = "available/*"
"""Columns of tokens of each domain's text."""
TOLERANCE = 0.01
"""Weights of a row may sum to 1 within this: many write them with three digits."""
ROUNDING = 1e-9
"""Of their sum: 0.99 differs from 1 by a little more than 0.01."""


def matching_columns(columns: Iterable[str], pattern: str) -> dict[str, str]:
    """The columns of a pattern, by what stands in the place of its *."""
    if pattern.count("*") != 1:
        raise InputError(f"{pattern!r} is no name with one * where domains or losses differ")
    before, after = pattern.split("*")
    return {
        name[len(before) : len(name) - len(after)]: name
        for name in columns
        if name.startswith(before) and name.endswith(after) and len(name) > len(before + after)
    }


def refuse_unknown_names(names: Iterable[str], known: Collection[str], place: str) -> None:
    """Refuses names, in a setting or option, that are none of those that are known."""
    refuse([unknown_name_message(name, known, place) for name in names if name not in known])


def loss_names(losses: Iterable[str], pattern: str) -> list[str]:
    """Names of losses, of which some may be those of their columns."""
    return [next(iter(matching_columns([name], pattern)), name) for name in losses]


def read_swarm(
    path: Path,
    losses: Sequence[str] | None = None,
    *,
    metrics: Path | None = None,
    where: Mapping[str, str] | None = None,
    phases: Sequence[float] = (1.0,),
    weight: str | None = None,
    loss: str | None = None,
    sizes: Mapping[str, str] | None = None,
    skip_unmeasured: bool = False,
    run: str | None = None,
) -> Swarm:
    """The runs of a table, each named by its row's number, its weights divided by their sum.

    Args:
        path: A CSV file with a header (also `.csv.gz`), or a Parquet file (`.parquet`).
        losses: Names of the losses to read, or of their columns; all when absent.
        metrics: The second file of a pair, whose first is `path`.
        where: Values by column, A..B for numbers from A to B: only rows that have all of them are
            read.
        phases: Shares of the run of its phases, where it had several: the columns are
            `weight/0/<domain>`, then `weight/1/<domain>`, and so on; what is read is the exposure
            to each domain in each phase, so that all weights together sum to 1.
        weight: Columns of weights: a pattern with one `*`; absent: `weight/*`.
        loss: Columns of losses, in the same way; absent: `loss/*`.
        sizes: Columns of `parameters` and `tokens`, where they have other names.
        skip_unmeasured: Leaves out rows in which one of the losses has no finite number.
        run: The column that names each row's run, where a run has several rows.

    Raises:
        InputError: a file cannot be read, a column is missing or named twice, a value is no finite
            number, or a row's weights are no mixture.
    """
    columns = read_csv_or_parquet(path)
    if metrics is None:
        weights = _locate_columns(path, columns, weight or WEIGHT, "weight", least=2)
        known = _locate_columns(path, columns, loss or LOSS, "loss", least=1)
    else:
        columns, weights, known = _join_ratio_and_metric_tables(
            path, columns, metrics, weight, loss
        )
    rows = _choose_rows(path, columns, where or {})
    domains = tuple(weights)
    names = tuple(known if losses is None else loss_names(losses, loss or LOSS))
    refuse_unknown_names(names, known, f"{path}: target")
    read = [known[name] for name in names]
    if skip_unmeasured:
        rows = [n for n in rows if all(_is_finite_when_parsed(columns[c][n]) for c in read)]
    weights_NxK = _read_numbers(path, columns, rows, list(weights.values()))
    loss_NxM = _read_numbers(path, columns, rows, read)
    weights_NxK = _phase_exposures(path, domains, weights_NxK, rows, phases)
    values = _read_sizes(path, columns, rows, sizes or {})
    available_NxK = _read_available_tokens(path, columns, rows, domains, len(phases))
    refuse_unknown_names([run] if run else [], columns, f"{path}: run")
    runs = [
        Proxy(
            f"row {row + 1:05}" if run is None else str(columns[run][row]),
            weights_K=weights_NxK[n],
            loss_K=loss_NxM[n],
            available_K=None if available_NxK is None else available_NxK[n],
            **{name: values_N[n] for name, values_N in values.items()},
        )
        for n, row in enumerate(rows)
    ]
    return Swarm(domains, runs, names, tuple(phases))


def _locate_columns(
    path: Path, columns: Columns, pattern: str, option_prefix: str, *, least: int
) -> dict[str, str]:
    """The columns of weights or losses, by domain or by name."""
    result = matching_columns(columns, pattern)
    if len(result) < least:
        raise InputError(
            f"{path}: {len(result)} column(s) are named {pattern}, but {least} must be: name them "
            f"so, say how (--{option_prefix}-columns '{option_prefix}_*') or add the second file "
            "of a pair (--metrics)"
        )
    return result


def column_pattern_in_file(columns: Columns, asked_pattern: str | None, usual_pattern: str) -> str:
    """How a file of a pair names weights or losses: as asked, as usual, or by any name."""
    return asked_pattern or (usual_pattern if matching_columns(columns, usual_pattern) else "*")


def _read_sizes(
    path: Path, columns: Columns, rows: list[int], column_names: Mapping[str, str]
) -> dict[str, list[Any]]:
    """Parameters and tokens of the rows, as far as the table has them.

    A column of one of these names that holds one text, or nothing, tells no size.
    """
    refuse_unknown_names(column_names.values(), columns, f"{path}: sizes")
    places = dict(column_names)
    for name in ("parameters", "tokens"):
        if name in column_names or name not in columns:
            continue
        values = {columns[name][n] for n in rows}
        if all(map(_is_finite_when_parsed, values)):
            places[name] = name
        elif len(values) > 1:
            raise InputError(
                f"{path}: {name} holds values that are no numbers: choose rows of one of them "
                f"(--where {name}=...), or name the column of sizes (--size-columns {name}=NAME)"
            )
    return {
        name: _read_numbers(path, columns, rows, [column])[:, 0].tolist()
        for name, column in places.items()
    }


def _read_available_tokens(
    path: Path, columns: Columns, rows: list[int], domains: tuple[str, ...], phases: int
) -> Floats | None:
    """Tokens of each domain's text in each row [N, K]; None where the table has none."""
    known = matching_columns(columns, AVAILABLE)
    if not known:
        return None
    names = [d.partition("/")[2] if phases > 1 else d for d in domains]
    if missing := [name for name in names if name not in known]:
        raise InputError(
            f"{path}: the column {AVAILABLE.replace('*', missing[0])} is missing, others of its "
            "kind are there: give it, or leave all of them out"
        )
    tokens_NxK = _read_numbers(path, columns, rows, [known[name] for name in names])
    for n, k in np.argwhere(tokens_NxK <= 0)[:1]:
        raise InputError(
            f"{path}: row {rows[n] + 1}: {known[names[k]]} must be above 0: a domain without text "
            "is left out"
        )
    return tokens_NxK


def _choose_rows(path: Path, columns: Columns, where: Mapping[str, str]) -> list[int]:
    """The rows that have these values: as numbers, as texts, or within a range A..B."""
    refuse_unknown_names(where, columns, f"{path}: where")
    rows = range(len(next(iter(columns.values()))))

    def is_chosen(n: int) -> bool:
        return all(_matches_value_or_range(columns[name][n], v) for name, v in where.items())

    result = list(filter(is_chosen, rows))
    if not result:
        raise InputError(f"{path}: no row has {dict(where)}: check the values")
    return result


def _matches_value_or_range(value: object, wanted: str) -> bool:
    low, dots, high = wanted.partition("..")
    with contextlib.suppress(ValueError):
        return float(low) <= float(str(value)) <= float(high if dots else low)
    return str(value) == wanted


class _TableAndColumnNames(NamedTuple):
    """A pair of files as one table."""

    columns: Columns
    weight_columns: dict[str, str]
    """By domain."""
    loss_columns: dict[str, str]
    """By name."""


def _join_ratio_and_metric_tables(
    ratios: Path,
    first: Columns,
    metrics: Path,
    weight_pattern: str | None,
    loss_pattern: str | None,
) -> _TableAndColumnNames:
    """A pair of files as one table, in the order of the first."""
    second = read_csv_or_parquet(metrics)
    key = next((name for name in KEYS if name in first and name in second), None)
    if key is None:
        raise InputError(f"{ratios}, {metrics}: both need a column {' or '.join(KEYS)}: add one")
    problems = []
    for path, columns in ((ratios, first), (metrics, second)):
        names = columns[key]
        if twice := {name for name in names if names.count(name) > 1}:
            name = min(map(str, twice))
            problems.append(f"{path}: {key} {name!r} is there twice: leave one out")
    place = {name: n for n, name in enumerate(second[key])}
    problems += [
        f"{metrics}: {key} {name!r} of {ratios.name} is missing: leave it out"
        for name in first[key]
        if name not in place
    ]
    refuse_first_problems(problems)
    order = [place[name] for name in first[key]]
    second = {name: [values[n] for n in order] for name, values in second.items()}
    # One name may be a domain's in the first file and a loss's in the second.
    result, found = second | first, []
    for path, columns, given, usual, what, least in (
        (ratios, first, weight_pattern, WEIGHT, "weight", 2),
        (metrics, second, loss_pattern, LOSS, "loss", 1),
    ):
        own = {name: values for name, values in columns.items() if name not in LABELS}
        pattern = column_pattern_in_file(own, given, usual)
        located = _locate_columns(path, own, pattern, what, least=least)
        result |= {usual.replace("*", name): own[column] for name, column in located.items()}
        found.append({name: usual.replace("*", name) for name in located})
    return _TableAndColumnNames(result, *found)


def _phase_exposures(
    path: Path,
    domains: tuple[str, ...],
    weights_NxK: Floats,
    rows: list[int],
    phases: Sequence[float],
) -> Floats:
    """The weights of each phase times its share."""
    first = [name.removeprefix("0/") for name in domains if name.startswith("0/")]
    expected = [f"{phase}/{name}" for phase in range(len(phases)) for name in first]
    other = len(phases) > 1 and list(domains) != expected
    if other or not 0 < min(phases) <= max(phases) < math.inf:
        raise InputError(
            f"{path}: of {len(phases)} phases the columns must be weight/0/<domain> for all "
            "domains, then weight/1/<domain> in the same order, and so on; shares are positive"
        )
    parts = np.split(weights_NxK, len(phases), axis=1)
    for part_NxK in parts:
        _refuse_bad_weights(path, part_NxK, rows)
    shares = [phase / sum(phases) for phase in phases]
    return np.concatenate(
        [s * p / p.sum(axis=1, keepdims=True) for s, p in zip(shares, parts, strict=True)], axis=1
    )


def _refuse_bad_weights(path: Path, weights_NxK: Floats, rows: list[int]) -> None:
    total_N = weights_NxK.sum(axis=1)
    negative = np.flatnonzero(weights_NxK.min(axis=1) < 0)
    problems = [
        f"{path}: row {rows[n] + 1}: a weight is negative: give each domain's share"
        for n in negative
    ]
    problems += [
        f"{path}: row {rows[n] + 1}: the weights sum to {total_N[n]:.4g}, not 1: give each "
        "domain's share"
        for n in np.flatnonzero(np.abs(total_N - 1) > TOLERANCE + ROUNDING)
    ]
    refuse_first_problems(problems)


def _read_numbers(path: Path, columns: Columns, rows: list[int], names: list[str]) -> Floats:
    """Finite numbers of these rows and columns [N, M]."""
    values_NxM, problems = np.full((len(rows), len(names)), np.nan), []
    for m, name in enumerate(names):
        for n, row in enumerate(rows):
            value = columns[name][row]
            if _is_finite_when_parsed(value):
                values_NxM[n, m] = float(str(value))
            else:
                shown = "nothing" if value in (None, "") else repr(value)
                problems.append(
                    f"{path}: row {row + 1}: {name} is {shown}, no finite number: leave the row "
                    "out (rows without a loss: --skip-unmeasured)"
                )
    refuse_first_problems(problems)
    return values_NxM


def _is_finite_when_parsed(cell: object) -> bool:
    try:
        return math.isfinite(float(str(cell)))
    except ValueError:
        return False
