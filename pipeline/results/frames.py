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
    """A table's cells as readers see them: values by section and row, and by column.

    Args:
        cells: What `frame` gives of a table.
    """
    wide = cells.pivot(index=["section", "row_label"], columns="column_label", values="value")
    columns = cells.sort_values("column_position", kind="stable")["column_label"].unique()
    rows = cells[["section", "row_label"]].drop_duplicates()
    return wide.loc[list(rows.itertuples(index=False, name=None)), columns]
