"""The paper's figures, from invented runs and from rows as a view gives them."""

import pytest
from played import columns_of, insert, play, scored, train

from pipeline.results import figure_panels
from pipeline.results.database_reader import query_rows

LAID_OUT = {
    "scenario", "model", "panel", "title", "x_label", "y_label", "key", "key_position", "step",
    "value",
}  # fmt: skip
DRAWN = ("figure1", "figure2", "figure4", "figure5", "figure6", "figure7", "figure8")


def row(step, value, **more):
    return {
        "scenario": "s", "model": "m", "panel": "p", "title": "t", "x_label": "x", "y_label": "y",
        "key": "k", "key_position": 0, "step": step, "value": value,
    } | more  # fmt: skip


def test_every_figure_of_the_paper_has_a_kind_and_a_view_that_lays_it_out(created):
    for name in DRAWN:
        assert columns_of(created, name) >= LAID_OUT, name


def test_a_view_says_where_its_lines_and_limits_are():
    (panel,) = figure_panels.panels_of_layout_rows(
        [
            row(0, 1.0, reference=5.0, reference_label="end", bottom=0.0, low=0.5, high=2.0),
            row(1, 2.0, low=1.5, high=3.0),
            row(0, 4.0, key="other", key_position=-1),
        ]
    )
    assert panel.references == [("end", 5.0)]
    assert panel.y_limits == (0.0, pytest.approx(4.4))
    first, second = panel.series
    assert (first.y, first.low, first.high) == ([1.0, 2.0], [0.5, 1.5], [2.0, 3.0])
    assert (second.key, second.position, second.low) == ("other", -1, None)


def test_an_upper_limit_of_zero_is_one():
    (panel,) = figure_panels.panels_of_layout_rows([row(0, -1.0, bottom=-2.0, top=0.0)])
    assert panel.y_limits == (-2.0, 0.0)


def test_figure_1_says_how_much_sooner_pike_is_where_the_baseline_ends(paper):
    for method in ("mix", "pike"):
        insert(
            paper, "paper", paper_table="table2", scenario="glam", model="gpt2-large",
            method=method, metric="accuracy", task="arc_easy", shots=0, value=1,
        )  # fmt: skip
        run = train(paper, "text", method, {"code": 8.0})
        for step, value in enumerate((20.0, 40.0)):
            scored(paper, run, "continuation-code", value, step=step)
    insert(
        paper, "speedups", scenario="text", model="nano", quantity="accuracy", shots=0,
        formulation="cf", metric="per_token", method="pike", against="mix", ratio=1.94, low=1.2,
        high=2.5, p=0.01,
    )  # fmt: skip
    found = query_rows(paper, "from figure1")
    assert {r["x_label"] for r in found} == {"step; the quickest PiKE: 1.9 x as fast [1.2, 2.5]"}
    assert [r["value"] for r in found if r["key"] == "pike"] == [20.0, 40.0]
    assert {r["reference"] for r in found} == {40.0}


def test_figure_7_is_the_mean_perplexity_of_three_methods_after_the_first_step(paper):
    play(
        paper,
        scenario=[("two", "mc4-en-hi")],
        model=[("pico", "gpt2-small"), ("nano", "gpt2-small")],
        method=["pcgrad"],
    )
    paper.execute("insert into paper_names values ('scenario', 'mc4-en-hi', 3, 'two languages')")
    paper.execute("insert into paper_names values ('model', 'gpt2-small', 0, 'GPT-2 small')")
    paper.execute("delete from published_names where ours = 'nano' and published = 'gpt2-large'")
    train(paper, "two", "pcgrad", {"easy": 8.0, "hard": 4.0})
    train(paper, "two", "pike", {"easy": 8.0, "hard": 4.0})
    assert [(r["key"], r["step"], r["value"]) for r in query_rows(paper, "from figure7")] == [
        ("pcgrad", 10, pytest.approx(6))
    ]


def test_figure_6_shows_the_baselines_gradients_alone(paper):
    for method in ("mix", "pike"):
        run = train(paper, "text", method, {"code": 8.0, "prose": 8.0})
        insert(
            paper, "similarities", run=run, step=0, domain_a="code", domain_b="prose", cosine=0.25,
            ratio=0.125, cosine_corrected=0.5,
        )  # fmt: skip
    found = query_rows(paper, "from figure6")
    assert {r["method"] for r in found} == {"mix"}
    assert [(r["panel"], r["value"]) for r in found] == [
        ("cosine", 0.25),
        ("cosine-corrected", 0.5),
        ("ratio", 0.125),
    ]


def test_figure_8_draws_a_method_once_whatever_it_plays_and_how_far_its_seeds_lie_apart(paper):
    play(paper, method=[("pike", "pike-estimates=1")])
    for method, by_seed in (("mix", (0.5,)), ("pike", (0.3, 0.8, 0.7)), ("random", (0.5,))):
        for seed, weight in enumerate(by_seed):
            run = train(paper, "symbols", method, {"easy": 8.0}, seed=seed)
            insert(paper, "weights", run=run, step=0, domain="easy", weight=weight, count=1)
    columns = ("key", "step", "value", "low", "high", "seeds")
    assert [tuple(r[c] for c in columns) for r in query_rows(paper, "from figure8")] == [
        ("mix", 1, 0.5, None, None, 1),
        ("pike", 1, pytest.approx(0.6), 0.3, 0.8, 3),
    ]
