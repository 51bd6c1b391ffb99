"""A swarm of proxy runs from a table of one's own: CSV, or Parquet where pyarrow is installed.

A row is a run. Columns `weight/<domain>` hold its mixture, columns `loss/<name>` its losses after
the last step; other columns are not read. Other prefixes can be named.

Shapes: K domains, M losses, N rows.
"""

import contextlib
import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders.interface import Proxy, Swarm
from pike_mixing.settings import unknown

TOLERANCE = 0.01
"""Weights of a row may sum to 1 within this: many write them with three digits."""


def read(
    path: Path, target: Sequence[str], *, weight: str = "weight/", loss: str = "loss/"
) -> Swarm:
    """The runs of a table, each named by its row's number, its weights divided by their sum.

    Args:
        path: A CSV file with a header, or a Parquet file (`.parquet`).
        target: Names of the losses to read, with or without the prefix.
        weight: Prefix of the columns of weights.
        loss: Prefix of the columns of losses.

    Raises:
        InputError: the file cannot be read, a column is missing or named twice, a value is no
            finite number, or a row's weights are no mixture.
    """
    columns = _parquet(path) if path.suffix == ".parquet" else _csv(path)
    domains = tuple(name.removeprefix(weight) for name in columns if name.startswith(weight))
    if len(domains) < 2:
        raise InputError(
            f"{path}: {len(domains)} column(s) begin with {weight!r}, two domains at least are "
            f"needed: name them {weight}<domain>, or name your own prefix (--weight-prefix)"
        )
    known = [name.removeprefix(loss) for name in columns if name.startswith(loss)]
    losses = tuple(name.removeprefix(loss) for name in target)
    missing = [name for name in losses if name not in known]
    if not known:
        raise InputError(
            f"{path}: no column begins with {loss!r}: name them {loss}<name>, or name your own "
            "prefix (--loss-prefix)"
        )
    if missing:
        raise InputError("\n".join(unknown(name, known, f"{path}: target") for name in missing))
    weights_NxK = _numbers(path, columns, [weight + name for name in domains])
    loss_NxM = _numbers(path, columns, [loss + name for name in losses])
    _refuse_no_mixture(path, weights_NxK)
    runs = tuple(
        Proxy(f"row {n:05}", weights_K=weights_K / weights_K.sum(), loss_K=loss_M)
        for n, (weights_K, loss_M) in enumerate(zip(weights_NxK, loss_NxM, strict=True), 1)
    )
    return Swarm(domains, runs, losses)


def _refuse_no_mixture(path: Path, weights_NxK: Floats) -> None:
    total_N = weights_NxK.sum(axis=1)
    negative = np.flatnonzero(weights_NxK.min(axis=1) < 0)
    problems = [f"row {n + 1}: a weight is negative: give each domain's share" for n in negative]
    problems += [
        f"row {n + 1}: the weights sum to {total_N[n]:.4g}, not 1: give each domain's share"
        for n in np.flatnonzero(np.abs(total_N - 1) > TOLERANCE)
    ]
    _refuse(path, problems)


def _refuse(path: Path, problems: list[str]) -> None:
    """Raises the first problems of a table: of a thousand rows all may be wrong alike."""
    if problems:
        shown = [f"{path}: {problem}" for problem in problems[:5]]
        more = [f"{path}: {len(problems) - 5} more"] if len(problems) > 5 else []
        raise InputError("\n".join(shown + more))


def _numbers(path: Path, columns: Mapping[str, Sequence[object]], names: list[str]) -> Floats:
    values_NxM = np.full((len(next(iter(columns.values()))), len(names)), np.nan)
    problems = []
    for m, name in enumerate(names):
        for n, value in enumerate(columns[name]):
            with contextlib.suppress(ValueError):
                values_NxM[n, m] = float(str(value))
            if not np.isfinite(values_NxM[n, m]):
                shown = "nothing" if value in (None, "") else repr(value)
                problems.append(
                    f"row {n + 1}: {name} is {shown}, no finite number: leave the row out"
                )
    _refuse(path, problems)
    return values_NxM


def _refuse_twice(path: Path, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: the column {twice[0]!r} is there twice: rename one")


def _csv(path: Path) -> dict[str, list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *rows = [row for row in csv.reader(file) if row] or [[]]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}: check the path") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is no CSV in UTF-8: {error}: write it anew") from None
    header = [name.strip() for name in header]
    _refuse_twice(path, header)
    ragged = [
        f"row {n}: {len(row)} values for {len(header)} columns: mend it"
        for n, row in enumerate(rows, 1)
        if len(row) != len(header)
    ]
    _refuse(path, ragged)
    if not rows:
        raise InputError(f"{path} has no rows: give a header and a row for each run")
    return {name: [row[m] for row in rows] for m, name in enumerate(header)}


def _parquet(path: Path) -> dict[str, list[object]]:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ModuleNotFoundError:
        raise InputError(
            f"{path}: Parquet needs the package 'pyarrow', which is not installed: run "
            "`pip install pyarrow`, or give a CSV"
        ) from None
    try:
        table = parquet.read_table(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}: check the path") from None
    except ArrowInvalid as error:
        raise InputError(f"{path} is no Parquet file: {error}: write it anew") from None
    _refuse_twice(path, table.column_names)
    if not table.num_rows:
        raise InputError(f"{path} has no rows: give a row for each run")
    return {name: table.column(name).to_pylist() for name in table.column_names}
