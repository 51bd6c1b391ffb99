"""The paper's 14 tables, from invented runs whose numbers can be checked by hand."""

import json

import documented
import pytest
from played import insert, play, scored, train

from pipeline.results import tables
from pipeline.results.database_reader import query_rows


def read(connection, name):
    """Sections of a table: row label -> column label -> cell as a view gives it."""
    found = {}
    for row in query_rows(connection, f"from {name}"):
        section = found.setdefault(row["section"], {})
        section.setdefault(row["row_label"], {})[row["column_label"]] = row
    return found


@pytest.mark.slow
def test_ours_stand_in_the_papers_layout_and_its_own_rows_below(paper):
    train(paper, "symbols", "mix", {"easy": 8.0, "noise": 12.0}, accuracy={"continuation-easy": 30})
    ours, theirs = read(paper, "table1").values()
    assert set(ours) == {"Mix"}
    cells = {label: cell["value"] for label, cell in ours["Mix"].items()}
    # The mean is over both domains, though only one of them plays a language that the paper names.
    assert cells == {
        "mean perplexity": pytest.approx(10),
        "easy as C4 (en)": 8,
        "continuation-easy as HellaSwag (en), 0-shot": 30,
        "seeds": 1,
    }
    assert theirs["PiKE"]["C4 (en)"]["bold"]
    assert theirs["Mix"]["HellaSwag (en), 7-shot"]["value"] == 28.1


@pytest.mark.slow
def test_a_row_is_the_mean_over_all_its_seeds_and_says_where_pairs_differ_otherwise(paper):
    values = {
        "mix": (8.0, 10.0, 30.0),  # mean 16
        "pike": (9.0, 10.5),  # mean 9.75, yet 1 and 0.5 above Mix on the seeds that both have
        "random": (7.0,),  # below Mix both ways
    }
    for method, by_seed in values.items():
        for seed, value in enumerate(by_seed):
            train(paper, "symbols", method, {"easy": value}, seed=seed)
    ours = next(iter(read(paper, "table1").values()))
    cells = {label: row["easy as C4 (en)"] for label, row in ours.items()}
    shown = {label: (cell["value"], cell["other_sign"]) for label, cell in cells.items()}
    assert shown == {"Mix": (16, False), "PiKE": (9.75, True), "Random": (7, False)}
    assert [row["seeds"]["value"] for row in ours.values()] == [3, 1, 2]
    assert cells["PiKE"]["runs"] == ["symbols/nano/pike/seed0", "symbols/nano/pike/seed1"]
    assert cells["PiKE"]["run_values"] == [9, 10.5]


@pytest.mark.slow
def test_the_column_that_the_page_adds_to_table_2_is_shown(paper):
    insert(
        paper, "paper", paper_table="table2", scenario="glam", model="gpt2-large", params="1B",
        method="mix", metric="accuracy", task="average", shots=7, value=47.2, bold=False,
        underlined=False,
    )  # fmt: skip
    for seed, value in enumerate((30, 34, 38)):
        train(paper, "text", "mix", {"code": 8}, accuracy={"continuation-code": value}, seed=seed)
    (query,) = documented.blocks("docs/paper-map.md", "sql")
    cells = next(iter(read(paper, f"({query})").values()))["Mix"]
    assert cells["mean accuracy, 0-shot"]["value"] == 34
    # Squares of 4, 0 and 4, over two.
    assert cells["deviation of runs"]["value"] == 4
    assert set(cells["deviation of runs"]) <= tables.KNOWN


@pytest.mark.slow
@pytest.mark.parametrize(("config", "shown"), [({}, 30), ({"paper": {"headline": "hyb"}}, 40)])
def test_tasks_are_shown_by_the_headline_formulation(paper, config, shown):
    paper.execute("update experiment set config = ?", [json.dumps(config)])
    run = train(paper, "symbols", "mix", {"easy": 8.0}, accuracy={"continuation-easy": 30})
    for formulation, value in (("hyb", 40), ("mcf", 50)):
        scored(paper, run, "continuation-easy", value, formulation=formulation)
    ours, _ = read(paper, "table1").values()
    assert ours["Mix"]["continuation-easy as HellaSwag (en), 0-shot"]["value"] == shown


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "table"), [("other", "table1"), ("symbols", "table9")])
def test_where_nothing_plays_its_scenario_or_shots_the_paper_stands_alone(paper, scenario, table):
    train(paper, scenario, "mix", {"easy": 8.0}, accuracy={"continuation-easy": 30})
    (section,) = read(paper, table)
    assert section.startswith("As printed")


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "beside"), [("mc4-en-hi-de", 11.13), ("symbols", None)])
def test_a_scenario_under_the_papers_name_alone_has_its_numbers_beside_ours(
    paper, scenario, beside
):
    config = json.dumps({"paper": {"comparable": True}})
    paper.execute("update experiment set config = ?", [config])
    play(paper, scenario=["mc4-en-hi-de"])
    train(paper, scenario, "mix", {"easy": 8.0})
    ours = next(iter(read(paper, "table1").values()))
    assert ours["Mix"]["easy as C4 (en)"]["published"] == beside


@pytest.mark.slow
@pytest.mark.parametrize(
    ("random", "pike", "beats"),
    [(10, 7.0, True), (10, 7.9, True), (10, 8.5, False), (None, 7.0, False)],
)
def test_pike_is_underlined_where_it_beats_all_three_ways_of_batching(paper, random, pike, beats):
    for method, value in {"mix": 9, "round-robin": 8, "random": random, "pike": pike}.items():
        if value is not None:
            train(paper, "symbols", method, {"easy": value})
    ours = next(iter(read(paper, "table1").values()))
    marks = {label for label, row in ours.items() if row["easy as C4 (en)"]["beats"]}
    assert marks == ({"PiKE"} if beats else set())


def test_table_4_shows_weights_as_given_or_found_and_divided_by_their_sum(paper):
    weights = {"code": 0.51, "prose": 0.53}
    domains = dict.fromkeys(weights, 8.0)
    train(paper, "text", "glam", domains, method={"weights_by_domain": weights})
    run = train(paper, "text", "doremi", domains, method={"mixture": "doremi"})
    paper.execute("update runs set mixture = 'found' where run = ?", [run])
    play(paper, method=["doremi"])
    insert(paper, "paper_names", kind="method", name="doremi", position=16, label="DoReMi")
    found = json.dumps({"weights_by_domain": {"code": 0.25, "prose": 0.75}})
    insert(paper, "lineage", artifact="mixture/found", facts=found)
    insert(
        paper, "corpora", tokenizer="t", source="code", split="train", documents=3, tokens=700,
        bytes=1500, licence="CC0-1.0",
    )  # fmt: skip
    config = {"sources": {"code": {"bytes": 2_000_000_000}}}
    paper.execute("update experiment set config = ?", [json.dumps(config)])
    (ours,) = read(paper, "table4").values()
    row = ours["code as Books"]
    assert {name: cell["value"] for name, cell in row.items() if "GLaM" in name} == {
        "weight chosen by GLaM": 0.51,
        "GLaM: divided by their sum": pytest.approx(0.51 / 1.04),
    }
    assert row["weight chosen by DoReMi"]["value"] == 0.25
    assert (row["tokens"]["value"], row["licence"]["text"]) == (700, "CC0-1.0")
    assert row["counted"]["text"] == "packed training text of the first 2.0 GB"


@pytest.mark.parametrize(
    ("ours", "language"), [("en", "English"), ("easy", "in the place of English")]
)
def test_table_3_names_the_language_and_what_was_counted(paper, ours, language):
    paper.execute("delete from published_names where kind = 'task'")
    play(paper, task=[(ours, "en")])
    insert(
        paper, "paper_setup", paper_table="table3", row_position=0, row_label="en",
        column_position=0, column_label="language", text="English",
    )  # fmt: skip
    train(paper, "symbols", "mix", {ours: 8.0})
    insert(paper, "corpora", tokenizer="t", source=ours, split="train", tokens=700)
    (row,) = next(iter(read(paper, "table3").values())).values()
    assert row["language"]["text"] == language
    assert row["counted"]["text"] == "packed training text, all"


def test_tables_5_to_7_read_the_runs_own_settings(paper):
    insert(paper, "defaults", kind="training", settings='{"beta1": 0.95, "beta2": 0.98}')
    insert(paper, "defaults", kind="pike", settings='{"every": 1000, "preset": "recommended"}')
    insert(paper, "corpora", tokenizer="t", source="easy", split="train", vocabulary=500)
    run = train(
        paper, "symbols", "pike", {"easy": 8.0},
        method={"zeta1": 0.5, "zeta2": 0.1, "every": 40, "norm": "plug-in"},
        model={"layers": 2, "heads": 3, "head_width": 8, "width": 24},
        training={"steps": 1200, "rows": 25, "beta1": 0.5},
    )  # fmt: skip
    for step in (40, 80):
        insert(paper, "gradient_statistics", run=run, step=step, domain="easy", rows=16)
    (sizes,) = read(paper, "table5").values()
    shown = {label: cell["value"] for label, cell in sizes["nano as GPT-2 large"].items()}
    assert shown == {
        "parameters with the tokenizer t, 500 pieces": 1_500_000,
        "layers": 2,
        "attention heads": 3,
        "attention head dim": 8,
        "hidden dim": 24,
    }
    (recipe,) = read(paper, "table6").values()
    assert recipe["optimizer"]["symbols"]["text"] == "AdamW (beta1 = 0.5, beta2 = 0.98)"
    assert recipe["training steps"]["symbols"]["text"] == "1,200"
    (pike,) = read(paper, "table7").values()
    assert {label: row["symbols"]["text"] for label, row in pike.items()} == {
        "(zeta1, zeta2)": "(0.5, 0.1)",
        "check interval T_0": "40",
        "batch size for estimation": "16",
        "estimate of the norm": "plug-in",
        "first update at step": "40",
    }


def test_table_8_is_the_share_of_the_time_that_estimates_took(paper):
    run = train(paper, "symbols", "pike", {"easy": 8.0})
    for phase, seconds in (("statistics", 2.0), ("forward and backward", 98.0)):
        insert(paper, "timings", run=run, phase=phase, seconds=seconds, share=seconds / 100)
    (row,) = next(iter(read(paper, "table8").values())).values()
    assert row["total training time"]["value"] == 100
    assert row["overhead of PiKE"]["value"] == 2
    assert row["runs"]["value"] == 1


def test_table_11_names_the_runs_own_coefficients_and_marks_the_best(paper):
    for ours, zeta2, accuracy in (("without", 0, 30.0), ("with", 0.5, 40.0)):
        published = f"pike-zeta1=0.1-zeta2={0 if zeta2 == 0 else 0.1}"
        play(paper, method=[(ours, published)])
        train(
            paper, "text", ours, {"code": 8.0}, accuracy={"continuation-code": accuracy},
            method={"zeta2": zeta2},
        )  # fmt: skip
    paper.execute("""update paper set bold = true where paper_table = 'table11' and value = 45.4""")
    ours, theirs = read(paper, "table11").values()
    row = ours["mean accuracy, 0-shot (%)"]
    assert {label: (c["value"], c["best"]) for label, c in row.items()} == {
        "zeta2 = 0": (30, False),
        "zeta2 = 0.5": (40, True),
    }
    printed = theirs["mean accuracy, 7-shot (%)"]
    assert {label: (c["bold"], c["best"]) for label, c in printed.items()} == {
        "zeta2 = 0": (False, None),
        "zeta2 = 0.1": (True, None),
    }
