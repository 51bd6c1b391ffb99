"""Questions put to the database in SQL."""

import io
import logging
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import duckdb

from pike_mixing.errors import InputError
from pike_mixing.setting_messages import unknown_name_message
from pipeline.results import sql_views
from pipeline.results.claim_tests import VERDICTS
from pipeline.results.database_reader import (
    connect,
    given_or_default_database,
    is_of_some_runs,
    log_database_and_staleness,
    newest_or_default_results_folder,
    open_explaining_missing_views,
    other_version_error,
    query_rows,
)
from pipeline.results.record_loader import insert_rows
from pipeline.runtime import output_formats
from pipeline.runtime.programs import program_command

log = logging.getLogger("pike")

Format = Literal["table", "csv", "json", "parquet"]
NARROW = {"from claims": "select claim, statement, ours, verdict, p_holm from claims"}
"""Views too wide for a terminal: what a table of all their columns shows."""


def answer_query(sql: str, database: Path | None = None, format: Format = "table") -> str | bytes:
    """The answer to one SQL statement, by a database that is opened for reading only.

    `table` is aligned for people; `csv`, `json` (a list of objects) and `parquet` (bytes) are for
    machines. Texts end without a line break.
    """
    if len(sql.split()) == 1 and sql.endswith(".duckdb"):
        raise InputError(
            f"{sql} is no statement: type a database behind one, as in "
            f'`{program_command("pike")} query "show tables" --database {sql}`'
        )
    database = given_or_default_database(database)
    try:
        with connect(database) as connection:
            if format == "table" and (narrow := NARROW.get(" ".join(sql.lower().split()))):
                again = f"{program_command('pike')} query 'select * {sql.strip()}'"
                log.warning("all columns: `%s`, or --format csv", again)
                sql = narrow
            statement = _single_statement(connection, sql)
            _add_stale_table(connection, sql, database)
            if format == "parquet":
                content = _parquet_bytes(connection, statement, database)
                log_database_and_staleness(connection, database)
                return content
            answer = connection.execute(statement)
            columns = [column[0] for column in answer.description or []]
            rows = answer.fetchall()
            # Of what it cannot answer, the error says where to ask.
            log_database_and_staleness(connection, database)
    except (duckdb.Error, UnicodeEncodeError) as error:
        raise _query_error(error, database) from None
    if format == "csv":
        return output_formats.as_csv(columns, rows)
    if format == "json":
        _refuse_duplicate_columns(columns)
    facts = [dict(zip(columns, row, strict=True)) for row in rows]
    return output_formats.json_csv_or_text(
        format, facts, lambda: output_formats.table_with_row_count(columns, rows)
    )


def describe_claims(database: Path | None, format: str = "text", claim: str | None = None) -> str:
    """The paper's claims, or one of them, with our number and verdict.

    format: text, by verdict, or json with all columns, in the paper's order.
    """
    if database is not None and not database.exists() and not database.suffix:
        raise InputError(
            f"{database} does not exist, and a database is read there: for one claim, type "
            f"`{program_command('pike')} claims --claim {database}`"
        )
    database = given_or_default_database(database)
    with open_explaining_missing_views(database) as connection:
        every = query_rows(connection, "from claims order by position")
        log_database_and_staleness(connection, database)
        if is_of_some_runs(database):
            log.warning("claims about other runs than those are `not run` here")
    if claim is not None:
        names = [one["claim"] for one in every]
        if claim not in names:
            raise InputError(unknown_name_message(claim, names, "--claim"))
        every = [every[names.index(claim)]]
    return output_formats.json_csv_or_text(
        format, every, lambda: "\n".join(_claim_report_lines(every))
    )


def _claim_report_lines(claims: list[dict[str, Any]]) -> Iterator[str]:
    if not claims:
        yield "This experiment has none of the paper's claims."
        return
    groups: dict[str, list[dict[str, Any]]] = {verdict: [] for verdict in VERDICTS}
    for one in claims:
        groups[one["verdict"]].append(one)
    for verdict, group in groups.items():
        if group:
            yield output_formats.colour_text(f"{len(group)} {verdict}", "bold")
            yield from _lines_of_each_claim(group)
    own = sum(one["published_verdict"] == "contradicted" for one in claims)
    yield f"contradicted by the paper's own tables: {own}"
    yield "p: with Holm's correction over all tested claims; supported or contradicted below 0.05"
    yield "What each verdict means, also that of too few seeds beside a p: docs/claims.md"


def _lines_of_each_claim(claims: list[dict[str, Any]]) -> Iterator[str]:
    for one in claims:
        ours = "" if one["ours"] is None else f"  {one['ours']:.3g} {one['unit']}"
        if one["ours_low"] is not None:
            ours += f" ({one['ours_low']:.3g} to {one['ours_high']:.3g}{_basis_text(one)})"
        p = "" if one["p_holm"] is None or not one["p_holm"] else f" (p = {one['p_holm']:.2g})"
        yield f"{one['claim']}: {one['verdict']}{p}{ours}"
        yield from _wrapped_indented_lines(one["statement"])
        if one["cell"]:
            yield f"    {one['cell']}"
        if one["published_verdict"] == "contradicted":
            worst = worst_method_difference_in_paper(one)
            yield f"    The paper's own tables contradict it: {worst}"


def worst_method_difference_in_paper(claim: dict[str, Any]) -> str:
    """The worst of the paper's own numbers for a claim: mix is 2.5 % below random (1B, 0-shot)."""
    value, unit, cell = (claim[key] for key in ("published_recomputed", "unit", "published_cell"))
    place, _, methods = cell.rpartition(": ")
    if unit != "% of the other" or value >= 0:
        return f"{value:.3g} {unit}, {cell}"
    one, _, other = methods.partition(" over ")
    return f"{one} is {-value:.3g} % below {other} ({place})"


def _basis_text(claim: dict[str, Any]) -> str:
    """What a claim's number is over; of several comparisons it is the worst one's."""
    if claim["seeds"] is None:
        return ", exact"
    told = f", {output_formats.count_with_noun(claim['seeds'], 'seed')}"
    if claim["cells"] > 1:
        told += f", the worst of {claim['cells']} comparisons for the claim"
        if claim["verdict"] == "too few seeds":
            told += ", some over fewer seeds"
    return told


def describe_tables_and_figures(results_or_newest: Path | None, format: str = "text") -> str:
    """Tables and figures of a results folder, or the newest one, and what each shows."""
    results = results_or_newest or newest_or_default_results_folder()
    every = [
        {"name": path.stem, "file": str(path), "about": sql_views.caption(view)}
        for path, view in sql_views.output_files_with_views(results)
    ]
    if not every:
        raise InputError(
            f"{results} has no tables or figures: `make run` makes them, `make restore` ours"
        )
    lines = []
    for one in every:
        lines.append(output_formats.colour_text(one["file"], "bold"))
        lines += _wrapped_indented_lines(one["about"])
    lines.append(f"A table is also a view: `{program_command('pike')} query 'from table2'`")
    return output_formats.json_csv_or_text(format, every, lambda: "\n".join(lines))


def _wrapped_indented_lines(text: str) -> list[str]:
    return textwrap.wrap(text, 96, initial_indent="    ", subsequent_indent="    ")


def _single_statement(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """The one statement of a text; DuckDB would answer the last of several alone."""
    sql.encode()
    statements = connection.extract_statements(sql)
    if not statements:
        raise InputError(f"{sql!r} holds no statement: ask for instance 'from runs'")
    if len(statements) > 1:
        raise InputError(
            f"there are {len(statements)} statements: ask one at a time, without `;` between them"
        )
    return statements[0]


def _refuse_duplicate_columns(columns: list[str]) -> None:
    """Objects have each name once: the values of the other columns would be lost."""
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise InputError(
            f"columns that have one name: {', '.join(twice)}: name them apart with `as`, or ask "
            "for a table or csv"
        )


def _query_error(error: Exception, database: Path) -> InputError:
    lacking = re.search(r"Table with name \"?(\w+)", str(error))
    name = lacking[1].lower() if lacking else ""
    if name in sql_views.view_sql_by_name():
        return other_version_error(database, name)
    hint = f'`{program_command("pike")} query "show tables"` lists tables and views'
    if views := sql_views.table_and_figure_views_of(name):
        return InputError(f"{database} has no {name}: did you mean {' or '.join(views)}? ({hint})")
    text = textwrap.indent(str(error).strip(), "  ")
    if "pytz" in text:  # DuckDB wants it to show times with a time zone.
        text += "\n  A time with a time zone is shown after ::timestamp or ::text behind it."
    return InputError(f"{database} cannot answer the query ({hint}):\n{text}")


def _add_stale_table(connection: duckdb.DuckDBPyConnection, sql: str, database: Path) -> None:
    """Adds, for a statement that names it, the table `stale`: work that is out of date."""
    try:
        asked = "stale" in map(str.lower, connection.get_table_names(sql))
    except duckdb.Error:  # Of a pivot, and of a join `using` a column, it names none.
        asked = re.search(r"\bstale\b", sql, re.IGNORECASE) is not None
    if not asked:
        return
    # Most questions need no plan, whose modules take longer to import than DuckDB to answer.
    from pipeline.results.stale_work import find_stale_work

    stale = find_stale_work(database)
    if stale is None:
        raise InputError(
            f"{database}: `stale` compares results with their configuration, which is not at hand "
            "here: ask in the folder where the workflow was started"
        )
    connection.execute(
        "create temp table stale (artifact text, reason text, recorded text, expected text)"
    )
    insert_rows(connection, "stale", sorted(map(list, stale)))


def _parquet_bytes(
    connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement, database_in_messages: Path
) -> bytes:
    relation = connection.sql(statement)
    if relation is None:
        raise InputError("the statement has no rows to write as Parquet: ask with `select`")
    _refuse_duplicate_columns(relation.columns)
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    try:
        pq.write_table(relation.to_arrow_table(), out)
    except pa.ArrowException as error:
        raise _query_error(error, database_in_messages) from None
    return out.getvalue()
