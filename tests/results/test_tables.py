import csv
import re

import pytest
from played import columns_of, fresh, run

from pike_mixing.errors import InputError
from pipeline.results import number_marks, sql_views, tables
from pipeline.runtime import atomic_files


def row(label, column, value, error=None, *, kind="method", place=0, better="lower", **more):
    """One cell as a view gives it."""
    return {
        "scenario": "s", "model": "m", "section": "s / m", "kind": kind, "row_position": place,
        "row_label": label, "column_position": 0, "column_label": column, "unit": "ppl",
        "value": value, "error": error, "decimals": 2, "better": better,
        "significant": True,
    } | more  # fmt: skip


def test_rows_and_columns_are_sorted_by_position():
    cells = [row("b", "y", 1.0, place=1, column_position=1), row("a", "x", 2.0), row("a", "y", 3.0)]
    cells[2]["column_position"] = 1
    block = tables.make_section(cells)
    assert block.cells.map(lambda cell: cell.shown).to_dict("split") == {
        "index": [("a", "method"), ("b", "method")],
        "columns": ["x (ppl)", "y (ppl)"],
        "data": [["2.00", "3.00"], ["", "1.00"]],
    }
    with pytest.raises(InputError, match=r"s / m: .* several cells of 'a' under 'x \(ppl\)': add"):
        tables.make_section([*cells, row("a", "x", 4.0)])


@pytest.mark.parametrize(
    ("values", "better", "texts"),
    [
        ((2.0, 1.5), "lower", ("2.00", "*1.50*")),
        ((2.0, 1.0), "higher", ("*2.00*", "1.00")),
        ((1.0, 2.0), None, ("1.00", "2.00")),
        # What is shown alike is bold alike, and nothing where all are.
        ((1.001, 1.002, 2.0), "lower", ("*1.00*", "*1.00*", "2.00")),
        ((1.0, 1.001), "lower", ("1.00", "1.00")),
    ],
)
def test_the_best_values_are_bold(values, better, texts):
    cells = [row(name, "x", v, better=better) for name, v in zip("abc", values, strict=False)]
    # A floor does not compete.
    cells.append(row("floor", "x", 0.5 if better == "lower" else 9.0, kind="reference", place=1))
    shown = tables.make_section(cells).cells["x (ppl)"].to_list()[:-1]
    assert tuple(f"*{c.shown}*" if "bold" in c.marks else c.shown for c in shown) == texts


def test_the_best_value_is_only_underlined_where_no_test_confirms_it():
    cells = [row("a", "x", 2.0), row("b", "x", 1.0, significant=False)]
    for _ in range(2):
        marks = [cell.marks for cell in tables.make_section(cells).cells["x (ppl)"]]
        assert marks == [set(), {"underlined"}]
        cells[1].pop("significant", None)


def test_marks_of_a_papers_table_are_explained():
    cells = [
        row("PiKE", "x", 1.0, significant=False, beats=True, published=2.0, unit=None),
        row("Mix", "x", 3.0, significant=False, beats=False, published=2.0, unit=None, place=1),
    ]
    block = tables.make_section(cells)
    printed = row("Mix", "x", 2.0, section="As printed", better=None, bold=True, unit=None)
    blocks = [block, tables.make_section([printed])]
    text = tables.as_markdown(tables.TableSettings("table1"), blocks)
    assert "| PiKE | *<u>1.00 (2.00)</u>* |\n| Mix | 3.00 (2.00) |" in text
    assert "Underlined: PiKE or Balanced-PiKE" in text
    assert "Italics" in text
    # The paper's own bold is not explained by our tests.
    assert "| Mix | **2.00** |" in text
    assert "Bold:" not in text
    assert "2.000000" in tables.as_long_csv([block]).splitlines()[1]


def test_what_is_not_above_chance_is_grey_and_explained():
    cells = [row("a", "x", 2.0, 0.1, above_chance=False), row("b", "x", 1.0, above_chance=True)]
    settings, block = tables.TableSettings("accuracy"), tables.make_section(cells)
    text = tables.as_markdown(settings, [block])
    assert "| a | 2.00 ± 0.10° |\n| b | **1.00** |" in text
    assert "°, in grey: not above chance" in text
    assert "Underlined" not in text
    assert r"\textcolor{gray}{2.00 $\pm$ 0.10}" in tables.as_latex(settings, [block])
    (first, second) = csv.DictReader(tables.as_long_csv([block]).splitlines())
    assert (first["faint"], first["bold"], second["faint"]) == ("1", "0", "0")


def test_what_an_alarm_makes_doubtful_is_signed_and_explained():
    cells = [
        row("a", "x", 2.0, 0.1, collapsed=True, one_seed=True),
        row("b", "x", 1.0, unmoved=True, place=1),
        row("c", "x", 3.0, place=2),
    ]
    settings, block = tables.TableSettings("accuracy"), tables.make_section(cells)
    text = tables.as_markdown(settings, [block])
    assert "| a | 2.00 ± 0.10†¹ |\n| b | **1.00§** |\n| c | 3.00 |" in text
    assert "§: in some runs the method never changed how many rows" in text
    tex = tables.as_latex(settings, [block])
    assert r"a & 2.00 $\pm$ 0.10\dag{}$^1$ \\" in tex
    assert r"\textbf{1.00\S{}}" in tex
    assert r"\par\smallskip \S{}: in some" in tex
    (a, b, c) = csv.DictReader(tables.as_long_csv([block]).splitlines())
    names = ("value", "shown", "collapsed", "one_seed", "unmoved")
    assert [a[n] for n in names] == ["2.000000", "2.00 ± 0.10", "1", "1", "0"]
    assert [b[n] for n in names] == ["1.000000", "1.00", "0", "0", "1"]
    assert [c[n] for n in names] == ["3.000000", "3.00", "0", "0", "0"]


def test_doubts_sign_every_number_of_their_method_and_of_no_other(shown):
    # PiKE's made-up runs collapse.
    for name in ("perplexity", "accuracy"):
        text = (shown / f"tables/{name}.csv").read_text(encoding="utf-8")
        for cell in csv.DictReader(text.splitlines()):
            of_pike = cell["row"] == "pike" and cell["shown"] != ""
            assert (cell["collapsed"], cell["unmoved"]) == ("1" if of_pike else "0", "0"), cell


@pytest.mark.parametrize(
    ("value", "error", "decimals", "text"),
    [
        (1234.567, None, 1, "1,234.6"),
        (1.0, 0.256, 2, "1.00 ± 0.26"),
        (-0.0001, None, 2, "0.00"),
        (None, None, 2, ""),
        (float("nan"), 1.0, 2, ""),
        (3.0, float("nan"), 0, "3"),
    ],
)
def test_numbers_have_fixed_decimals(value, error, decimals, text):
    assert number_marks.number_with_error_or_empty(value, error, decimals) == text


def test_text_replaces_a_value_and_underlines_are_the_tables_own():
    block = tables.make_section(
        [row("a", "x", 1.0, text="see note", underlined=True), row("b", "x", 2.0)]
    )
    cell = block.cells["x (ppl)"].iloc[0]
    assert (cell.shown, cell.marks) == ("see note", {"bold", "underlined"})


def test_markdown_is_a_table_per_section():
    block = tables.make_section(
        [row("a|b", "x", 1.0, 0.1), row("c", "x", 2.0, kind="reference", place=1)]
    )
    settings = tables.TableSettings("perplexity")
    text = tables.as_markdown(settings, [block])
    assert text.endswith(
        "## s / m\n\n|  | x (ppl) |\n| --- | ---: |\n| a\\|b | 1.00 ± 0.10 |\n| *c* | 2.00 |\n"
    )


def test_latex_is_escaped_and_ruled():
    block = tables.make_section(
        [
            row("a_b", "x", 1.0, 0.1, unit="%"),
            row("b", "x", 2.0, unit="%", kind="reference", place=1),
        ]
    )
    text = tables.as_latex(tables.TableSettings("costs"), [block])
    assert " & x (\\%) \\\\\n\\midrule\n" in text
    assert "a\\_b & 1.00 $\\pm$ 0.10 \\\\\n\\midrule\nb & 2.00 \\\\\n\\bottomrule" in text


def test_csv_has_every_cell_of_the_grid():
    cells = [row("a", "x", 1.0, 0.1), row("b", "y", 2000.0, column_position=1, place=1)]
    lines = list(csv.DictReader(tables.as_long_csv([tables.make_section(cells)]).splitlines()))
    assert [(c["row"], c["column"], c["value"], c["error"], c["shown"]) for c in lines] == [
        ("a", "x (ppl)", "1.000000", "0.100000", "1.00 ± 0.10"),
        ("a", "y (ppl)", "", "", ""),
        ("b", "x (ppl)", "", "", ""),
        ("b", "y (ppl)", "2000.000000", "", "2,000.00"),
    ]


def test_a_view_that_gives_no_cells_is_refused(made, tmp_path):
    atomic_files.write_json(tmp_path / "table.json", {"name": "x", "query": "method_averages"})
    told = (
        r"method_averages\.sql gives no cells of a table, it lacks the columns section, .*: "
        r"add them, or name another view \(.*table\.json: query\)$"
    )
    with pytest.raises(InputError, match=told):
        tables.write_table(tmp_path / "table.json", made / "pike.duckdb", tmp_path / "x.md")


CELL = (
    "select null as scenario, null as model, 's' as section, 'statement' as kind, "
    "0 as row_position, 'a' as row_label, 0 as column_position, 'x' as column_label, "
    "2 as decimals, 1.5 as value"
)
FILE = "pipeline/results/sql/table2.sql"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (CELL, ""),
        (f"{CELL} where false", f"table2 is empty: {FILE} gives no row of a selected run"),
        (
            f"{CELL}, 16 as my_runs",
            f"{FILE}: the column my_runs is not shown: a column of the table is rows with their "
            "own column_label and column_position",
        ),
        (
            "select 'mix' as row_label, 1.5 as value",
            f"{FILE} gives no cells of a table, it lacks the columns scenario, model, section, "
            "kind, row_position, column_position, column_label, decimals: add them; `git diff ",
        ),
    ],
)
def test_a_query_of_ones_own_is_told_what_of_it_is_not_shown(tmp_path, caplog, query, told):
    with fresh("table2", *sql_views.READ_BY_ALL, path=tmp_path / "one.duckdb") as connection:
        run(connection, "mix")
        connection.execute(f"create or replace view table2 as {query}")
    atomic_files.write_json(tmp_path / "table2.json", {"name": "table2"})
    where = tmp_path / "table2.json", tmp_path / "one.duckdb", tmp_path / "table2.md"
    if "it lacks" in told:
        with pytest.raises(InputError, match=f"^{re.escape(told)}"):
            tables.write_table(*where)
        return
    tables.write_table(*where)
    assert told in caplog.text
    assert bool(caplog.text) == bool(told)


def test_no_column_of_our_tables_is_called_superfluous(created):
    for view in sql_views.view_sql_by_name():
        if view.startswith("table"):
            assert columns_of(created, view) <= tables.KNOWN, view


@pytest.mark.slow
def test_whichever_file_is_named_all_three_come_out_the_same(shown, tmp_path):
    settings = shown / "settings/tables/perplexity.json"
    tables.write_table(settings, shown / "pike.duckdb", tmp_path / "perplexity.tex")
    for suffix in (".md", ".csv", ".tex"):
        again = tmp_path / f"perplexity{suffix}"
        assert again.read_bytes() == (shown / "tables" / again.name).read_bytes()


def test_columns_of_words_are_set_to_the_left():
    cells = [
        row("a", "verdict", None, text="agrees", kind="statement"),
        row("a", "ratio", None, text="not reached", kind="statement"),
        row("b", "ratio", 1.5, place=1, kind="statement"),
    ]
    block = tables.make_section(cells)
    assert block.cell_column_alignments("left", "right") == ["right", "left"]
    table = tables.TableSettings("costs")
    assert "| --- | ---: | --- |" in tables.as_markdown(table, [block])
    assert r"\begin{tabular}{lrl}" in tables.as_latex(table, [block])
    # No line between the header and rows that are all of one kind.
    assert tables.as_latex(table, [block]).count(r"\midrule") == 1
