"""What the paper states against what it prints."""

import csv
import re

import duckdb
import pytest

from pipeline.results import database, tables, views

STATEMENTS = database.PAPER / "statements.csv"


@pytest.fixture(scope="module")
def paper():
    """What the audit reads, with the published numbers and no run."""
    connection = duckdb.connect()
    views.create(connection, "table_audit")
    connection.execute("insert into experiment values ('e', 'mix', null, '{}')")
    database.fill_paper(connection, {})
    yield connection
    connection.close()


def found(connection, kind):
    """Statement, what is stated and what is recomputed of all findings of a kind."""
    sql = "select statement, stated, recomputed from audit where kind = ? order by all"
    return connection.execute(sql, [kind]).fetchall()


FOUND = {
    # (11.31 + 4.97 + 9.46) / 3 = 8.58; (27.6 + 26.7 + 26.3) / 3 = 26.87;
    # (36.7 + 33.2 + 34.2 + 56.5) / 4 = 40.15.
    "average": [
        ("mean accuracy of round-robin on mc4-en-hi-de, 1B, 0-shot", "26.5", "26.87"),
        (
            "mean accuracy of single-filtered-webpages on glam-filtered-webpages, 750M, 7-shot",
            "40.9",
            "40.15",
        ),
        ("mean perplexity of round-robin on mc4-en-hi-de, 1B", "8.41", "8.580"),
    ],
    "mark": [
        ("accuracy on csqa of pike, glam, 750M, 0-shot", "24.2, not bold", "bold"),
        ("perplexity on hi of ado, mc4-en-hi, 270M", "5.52, not bold", "bold"),
        ("perplexity on hi of mix, mc4-en-hi, 270M", "5.55, bold", "not bold"),
    ],
    "quote": [
        ("average accuracy of doremi on glam, 110M, 7-shot", "36.0", "37.0"),
        ("average accuracy of glam on glam, 110M, 7-shot", "35.3", "35.8"),
    ],
    "sum": [("the fixed weights of doremi sum to one", "1", "1.04")],
    "said twice": [
        ("GPT-2 large, 1B", "2 days", "71 hours"),
        ("GPT-2 small, 110M", "1 day", "10 hours"),
        ("batches of Random", "all domains", "one domain"),
        ("parameters of GPT-2 large on GLaM", "740", "750"),
        ("vectors in the cosine and the ratio", "losses", "gradients"),
        ("what Figure 7 shows", "downstream accuracy", "perplexity"),
        ("where Balanced-PiKE takes its gradients", "the weights of the domains", "the model"),
        (
            "where the ablation of the variance term stands",
            "app:pike-variance-magnitude-estimation-details",
            "app:importance-of-second-term",
        ),
    ],
    # 30.3% of 570 lies between 172.4 and 173.0 right answers: 173 is 30.351, printed 30.4.
    # 27.6, 28.1, 27.1 are at least 827, 842 and 812 of 3000: their mean is 27.567, not 27.5.
    "items": [
        ("accuracies on arc_easy that are multiples of 1/570", "40 of 40", "29 of 40"),
        ("mean accuracy of mix on mc4-en-hi-de, 1B, 0-shot", "27.5", "27.57 to 27.63"),
        ("mean accuracy of pike on mc4-en-hi-de, 1B, 0-shot", "28.7", "28.77 to 28.83"),
    ],
    "same run": [
        ("accuracy of pike-estimates=1 and of pike, one run, glam, 7-shot", "46.8", "47.6"),
        (
            "accuracy of pike-zeta1=0.1-zeta2=0.01 and of pike, one run, glam, 7-shot",
            "46.4",
            "47.6",
        ),
    ],
    "grid": [
        ("pairs of zetas in Table 11 that are among the pairs of Table 7", "6 of 6", "1 of 6"),
    ],
    "tie": [
        ("accuracy on hellaswag of glam, glam, 110M, 7-shot", "28.5, not bold", "a tie"),
        ("accuracy on hellaswag of pike, glam, 110M, 7-shot", "28.5, underlined", "a tie"),
        *[("perplexity on hi of ado, mc4-en-hi-de, 1B", "4.45, not bold", "a tie")] * 2,
    ],
    "alike": [
        ("random and round-robin on mc4-en-hi, 270M", "two runs", "3 of 3 perplexities equal")
    ],
}


@pytest.mark.parametrize("kind", FOUND)
def test_findings_of_a_kind(paper, kind):
    assert found(paper, kind) == FOUND[kind]


def test_nothing_else_is_found(paper):
    kinds = "select kind, count(*) from audit group by kind"
    expected = {kind: len(rows) for kind, rows in FOUND.items()} | {"theory": 22}
    assert dict(paper.execute(kinds).fetchall()) == expected


def test_findings_name_their_places_and_intervals(paper):
    places = "select distinct place from audit where kind = 'average' order by all"
    assert paper.execute(places).fetchall() == [
        ("table1, table13",),
        ("table1, table9, table13",),
        ("table14",),
    ]
    comments = "select comment from audit where kind = 'quote' order by statement"
    assert paper.execute(comments).fetchall() == [
        ("table14; 36.0 is its arc_easy",),
        ("table14; 35.3 is its arc_easy",),
    ]
    # Six weights, each known to half a hundredth.
    sql = "select low, high from audit where kind = 'sum'"
    assert paper.execute(sql).fetchone() == pytest.approx((1.01, 1.07))


def test_an_average_at_the_edge_of_rounding_is_no_finding(paper):
    # (11.38 + 4.54 + 9.55) / 3 = 8.49, printed 8.48: both could be 8.485.
    row = paper.execute(
        "select recomputed, low, holds from audit_averages "
        "where stated = '8.48' and statement like '%random%'"
    ).fetchone()
    assert row == ("8.490", pytest.approx(8.485), True)


def test_what_is_printed_equal_may_be_bold_or_not(paper):
    # Mix and ADO both have 4.45 on Hindi in Table 1, and Mix alone is bold.
    sql = (
        "select holds, stated from audit_marks where place = 'table1' "
        "and kind = 'mark' and statement like 'perplexity on hi%' order by all"
    )
    assert paper.execute(sql).fetchall() == [(True, "4.45, bold"), (True, "4.45, not bold")]


def test_gains_are_relative_and_hold_within_rounding(paper):
    sql = "select stated, recomputed, low, high, holds from audit_quotes where kind = 'gain'"
    rows = {row[:2]: row for row in paper.execute(sql).fetchall()}
    assert all(row[-1] for row in rows.values())
    # 48.1 / 45.0 = 1.0689; at the edges 48.15 / 44.95 = 1.0712, so 7.1% may just be.
    assert rows["7.1%", "6.9%"][2:4] == pytest.approx((6.6593, 7.1190), abs=1e-4)
    # 30.0 / 28.0 = 1.0714 is over Random; over Mix, 27.3, it would be 9.9%.
    assert ("7.1%", "7.1%") in rows
    assert {key[0] for key in rows} == {"3.4%", "4.8%", "6.2%", "7.1%"}


def test_what_holds_was_looked_at(paper):
    # One run in two tables: 72 numbers of Table 1, 78 of Table 2, 16 and 35 of Tables 9 and 10
    # stand again in Tables 13 and 14; those of 9 and 10 also in 1 and 2.
    counts = dict(paper.execute("select kind, count(*) from audited group by kind").fetchall())
    assert counts["twice"] == 72 + 72 + 16 + 16 + 35 + 35
    assert counts["share"] == 4
    assert counts["product"] == 4
    assert counts["gain"] == 6


@pytest.mark.parametrize(
    ("change", "kind", "expected"),
    [
        (
            "update paper set underlined = not underlined where \"table\" = 'table2' "
            "and method = 'pike' and task in ('piqa', 'csqa')",
            "mark",
            [
                ("accuracy on csqa of pike, glam, 750M, 7-shot", "43.2, not underlined",
                 "underlined"),
                ("accuracy on piqa of pike, glam, 750M, 7-shot", "60.4, underlined",
                 "not underlined"),
            ],
        ),
        (
            "update paper set value = 12.78 where \"table\" = 'table2' and method = 'mix' "
            "and metric = 'perplexity'",
            "twice",
            [("perplexity on average of mix, glam, 750M", "12.78", "12.77")],
        ),
        (
            "update paper set value = 1.7 where \"table\" = 'table8' and value = 1.2",
            "share",
            [("overhead of PiKE in percent of the hours, gpt2-small 110M", "1.7%", "1.20%")],
        ),
        (
            "insert into paper_errata values ('lemma:x', 'the bound', 1, 2, 'slip', 'K = 2')",
            "theory",
            [("the bound", "1", "2")],
        ),
    ],
    ids=["underline", "two tables", "overhead", "erratum"],
)  # fmt: skip
def test_what_would_be_wrong_is_found(paper, change, kind, expected):
    before = found(paper, kind)
    paper.execute("begin")
    paper.execute(change)
    after = found(paper, kind)
    paper.execute("rollback")
    assert [row for row in after if row not in before] == expected


@pytest.mark.slow
def test_every_finding_is_a_row_of_the_table(paper):
    rows = paper.execute("select distinct section, row_label from table_audit").fetchall()
    assert len(rows) == paper.execute("select count(*) from audit").fetchone()[0]


def test_what_the_paper_writes_in_latex_is_shown_as_it_is_written():
    cell = tables.Cell(None, None, r"\textit{Random} selects 5%")
    line = tables.Line("batches", "reference", {"comment": cell})
    block = tables.TableSection("said twice", None, None, ("comment",), (line,))
    text = tables.latex(tables.TableSettings("audit"), [block])
    assert r"\textbackslash{}textit\{Random\} selects 5\%" in text


def test_intervals_of_printed_numbers(paper):
    sql = "select low, high, stderr from printed where \"table\" = 'table1' and method = 'mix'"
    hindi = paper.execute(f"{sql} and task = 'hellaswag_hi'").fetchone()
    # sqrt(27.1 * 72.9 / 3000) = 0.8115
    assert hindi == pytest.approx((27.05, 27.15, 0.8115), abs=1e-4)
    assert paper.execute(f"{sql} and task = 'hi'").fetchone() == (
        pytest.approx(4.445),
        pytest.approx(4.455),
        None,
    )
    hours = "select low, high from printed where metric = 'train_hours' and params = '110M'"
    assert paper.execute(hours).fetchone() == (9.5, 10.5)


def test_statements_are_complete():
    with STATEMENTS.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert all(row["place"] and row["quantity"] and row["value"] and row["quote"] for row in rows)
    assert {row["quantity"] for row in rows} == {
        "count", "factor", "gain", "part", "product", "quote", "same run", "setting", "size",
        "training time", "weight", "whole", "words",
    }  # fmt: skip


def test_folders_of_views_are_read():
    order = views.ordered()
    assert order.index("audit_averages") < order.index("audited") < order.index("audit")


def test_the_page_names_every_finding_with_its_numbers(paper):
    page = (views.SQL.parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
    bold = set(re.findall(r"\*\*([^*]+)\*\*", page))
    sql = "select kind, stated, recomputed from audit where kind not in ('alike', 'theory', 'tie')"
    values = {
        value.removesuffix(", bold").removesuffix(", not bold")
        for kind, *both in paper.execute(sql).fetchall()
        for value in both
    }
    # What a list in words has no need of: marks, the sum that weights should have, LaTeX labels.
    silent = {"1", "1 day", "2 days", "40 of 40", "6 of 6", "bold", "not bold"}
    labels = {value for value in values if value.startswith("app:")}
    assert bold == values - silent - labels
