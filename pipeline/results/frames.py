"""Results as data frames, for notebooks and one's own figures."""

from pathlib import Path
from typing import TYPE_CHECKING

from pike_mixing.errors import InputError
from pike_mixing.settings import unknown
from pipeline.results.selection import connect_ours

if TYPE_CHECKING:
    import pandas as pd


def frame(name: str, database: str | Path = "results/pike.duckdb") -> "pd.DataFrame":
    """One table or view of a database, in the order that it gives its rows.

    Columns, their types and units stand in `sql/schema.sql`, and of a view at the head of its file.

    Args:
        name: `runs`, `claims`, `table_perplexity`, `table1`, `figure_losses`: `pike query
            "show tables"` lists all. The views of tables have a row for each cell.
        database: The experiment's database.

    Raises:
        InputError: there is no database, it is none of ours, or it has no such table or view.
    """
    with connect_ours(Path(database)) as connection:
        known = [name for (name,) in connection.execute("show tables").fetchall()]
        if name not in known:
            raise InputError(unknown(name, known, str(database)))
        return connection.execute(f'select * from "{name}"').df()


def grid(cells: "pd.DataFrame") -> "pd.DataFrame":
    """A table's cells, from `frame`, as readers see them.

    Values, or their words, by section, row and column.
    """
    units = cells.get("unit", [None] * len(cells))
    title = [
        f"{label} ({unit})" if isinstance(unit, str) else label
        for label, unit in zip(cells["column_label"], units, strict=True)
    ]
    value = cells.get("value")
    if "text" in cells:
        words = cells["text"].astype(object)
        value = words if value is None else words.where(words.notna(), value)
    shown = cells.assign(title=title, value=value)
    wide = shown.pivot(index=["section", "row_label"], columns="title", values="value")
    rows = cells[["section", "row_label"]].drop_duplicates()
    columns = shown.sort_values("column_position", kind="stable")["title"].unique()
    return wide.loc[list(rows.itertuples(index=False, name=None)), columns]
