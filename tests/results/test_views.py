import itertools
import json
import math
import shutil
from types import SimpleNamespace

import pytest
from docutils.core import publish_parts
from jinja2 import Template
from played import documents, evaluated, fresh, insert, run, scored
from repository import ROOT

from pike_mixing.comparison import document_sizes
from pike_mixing.errors import InputError
from pipeline.results import database_reader, loss_tests, sql_views
from pipeline.results.database_reader import query_rows
from pipeline.results.measured_results import MeasuredResults


def one(connection, sql):
    """The only row of an answer, by column."""
    (row,) = query_rows(connection, sql)
    return row


def test_every_view_says_what_it_is_and_orders_its_rows():
    for name, text in sql_views.view_sql_by_name().items():
        assert sql_views.caption(name), name
        assert "\norder by" in text, name
        if name.startswith("table"):
            assert sql_views.caption(name).endswith("."), name
            assert "--" not in sql_views.caption(name), name


def test_no_column_needs_quotes_in_a_question(created):
    """`table` and other reserved words end in a syntax error where a user names a column."""
    reserved = created.execute(
        "select table_name, column_name from duckdb_columns() join duckdb_keywords() "
        "on lower(column_name) = keyword_name where not internal and keyword_category = 'reserved'"
    ).fetchall()
    assert reserved == []


@pytest.fixture
def queries(tmp_path, monkeypatch):
    """A folder of our queries that a test edits."""
    shutil.copytree(sql_views.SQL, tmp_path / "sql")
    monkeypatch.setattr(sql_views, "SQL", tmp_path / "sql")
    sql_views.view_sql_by_name.cache_clear()
    yield tmp_path / "sql"
    sql_views.view_sql_by_name.cache_clear()


def caption_of_table_2():
    fresh("table2")
    return sql_views.caption("table2")


@pytest.mark.parametrize(
    ("file", "before", "after", "message"),
    [
        ("table2", b"from score_", b"form score_", r"(?s)sql/table2\.sql: .*LINE 6"),
        ("paper/score_table_cells", b"c.scenario,", b"c.scene,", r"_cells\.sql: DuckDB"),
        ("verdict_rules", b"as 3;", b"is 3;", r"(?s)verdict_rules\.sql: .*near \"is\""),
        ("table2", b"-- Table 2", b"\n-- Table 2", r"table2\.sql does not open with a comment"),
        ("table2", b"-- Table 2", b"-- \xff", r"table2\.sql is not UTF-8"),
        ("paper/score_table_columns", b"from paper", b"from table2 join paper", "read each other:"),
    ],
)
def test_a_mistake_in_a_query_is_the_users_and_named_by_its_file(
    queries, file, before, after, message
):
    path = queries / f"{file}.sql"
    text = path.read_bytes()
    assert before in text
    path.write_bytes(text.replace(before, after))
    with pytest.raises(InputError, match=message):
        caption_of_table_2()


def test_two_files_of_one_name_are_refused(queries):
    (queries / "table2.sql").rename(queries / "paper" / "table1.sql")
    told = r"paper/table1\.sql and .*sql/table1\.sql would be one view, table1: rename"
    with pytest.raises(InputError, match=told):
        caption_of_table_2()


def test_a_query_that_fails_on_what_it_reads_is_named(empty):
    run(empty, "mix", wall_seconds=1.0)
    empty.execute("create or replace view table_costs as select method::integer as x from runs")
    with pytest.raises(InputError, match=r"(?s)table_costs\.sql: .*'mix'"):
        database_reader.select_rows_keeping_nulls(empty, "table_costs", {}, "x")


def test_the_report_of_snakemake_says_what_a_table_compares():
    """Its captions are reStructuredText, rendered by Jinja."""
    file = SimpleNamespace(file="results/pike.duckdb")
    for name, about in ((name, sql_views.caption(name)) for name in sql_views.view_sql_by_name()):
        job = SimpleNamespace(
            params=SimpleNamespace(about=about), input=file, rule="table", wildcards=[name]
        )
        text = Template((ROOT / "workflow/caption.rst").read_text()).render(snakemake=job)
        body = publish_parts(text, writer="html")["body"]
        assert "system-message" not in body, body
        assert f"pike why table/{name}" in body
    rules = (ROOT / "workflow/rules/results.smk").read_text()
    assert (
        rules.count("about=lambda wildcards: sql_views.caption(") == rules.count("caption.rst") == 2
    )


def test_errors_of_perplexity_follow_from_those_of_the_loss(empty):
    name = run(empty, "mix")
    evaluated(empty, name, step=5, a=(math.log(6), 0.2))
    evaluated(empty, name, a=(math.log(4), 0.1))
    insert(empty, "domains", {"scenario": "s", "domain": "a", "position": 0})
    corpus = {"tokenizer": "t", "source": "a", "unigram_nats": 3.0, "floor_nats": None}
    insert(empty, "corpora", corpus | {"split": "validation"}, corpus | {"split": "train"})
    row = one(empty, "select * from validation where final")
    assert row["perplexity_stderr"] == pytest.approx(4 * 0.1)
    # bits per byte = 2 (one byte per token), and SE(nll) = 0.1 nats = 0.144 bits.
    assert row["bits_per_byte_stderr"] == pytest.approx(0.1 / math.log(2))
    assert (row["step"], row["trained_tokens"], row["unigram"], row["floor"]) == (10, 1000, 3, None)
    assert one(empty, "select trained_tokens from validation where not final") == {
        "trained_tokens": 500
    }


def test_both_averages_over_domains(empty):
    evaluated(empty, run(empty, "mix"), a=(math.log(2), 0.1), b=(math.log(8), 0.1))
    row = one(empty, "select * from validation_averages")
    assert row["perplexity"] == pytest.approx(5)  # (2 + 8) / 2
    assert row["perplexity_of_mean"] == pytest.approx(4)  # sqrt(2 * 8)
    assert row["perplexity_stderr"] == pytest.approx(math.sqrt(0.2**2 + 0.8**2) / 2)
    assert row["nll_stderr"] == pytest.approx(math.sqrt(2 * 0.1**2) / 2)
    assert row["perplexity_of_mean_stderr"] == pytest.approx(4 * math.sqrt(0.02) / 2)
    empty.execute("update perplexities set stderr = null where domain = 'b'")
    assert one(empty, "select nll_stderr from validation_averages") == {"nll_stderr": None}


@pytest.mark.parametrize(
    ("losses", "seed_sd", "stderr"),
    # Two seeds: 0.02 / 2; the documents are the same: 0.3^2 does not shrink.
    [((1.0, 1.2), math.sqrt(0.02), math.sqrt(0.01 + 0.09)), ((1.1,), None, 0.3)],
)
def test_means_over_seeds_carry_both_errors(empty, losses, seed_sd, stderr):
    for seed, nll in enumerate(losses):
        evaluated(empty, run(empty, "mix", seed), a=(nll, 0.3))
    expected = [len(losses), pytest.approx(1.1), seed_sd and pytest.approx(seed_sd)]
    for view in ("method_domains", "method_averages"):
        row = one(empty, f"select seeds, nll, nll_seed_sd, nll_stderr from {view}")
        assert list(row.values()) == [*expected, pytest.approx(stderr)]


def judged(connection, sql):
    """The rows of an answer after the losses are tested, by column."""
    loss_tests.fill_loss_tests(MeasuredResults(connection))
    return query_rows(connection, sql)


def test_differences_are_paired_by_document(empty):
    documents(empty, run(empty, "mix"), "a", (10, 10), (60, 30))
    documents(empty, run(empty, "pike", position=1), "a", (20, 10), (60, 30))
    row, _ = judged(empty, "select * from loss_tests order by domain nulls last")
    assert (row["method"], row["against"], row["domain"]) == ("pike", "mix", "a")
    # Losses of 80 / 40 and 70 / 40.
    assert row["nll_difference"] == pytest.approx(2 - 1.75)
    # The residuals 10 - 10 * 0.25 and 0 - 30 * 0.25 are 7.5 and -7.5; shares 1/4 and 3/4 with
    # squares that sum to 5/8 divide theirs by 9/8 and 1/8. Of two documents all error follows
    # length, and so few have the most that this may add.
    longer = math.sqrt(1 + document_sizes.MOST)
    error = longer * 7.5 * math.sqrt(8 / 9 + 8) / 40
    assert row["nll_stderr"] == pytest.approx(error)
    assert (row["effective"], row["nll_degrees"]) == pytest.approx((1.6, 1))
    assert row["perplexity_difference"] == pytest.approx(math.exp(2) - math.exp(1.75))
    # pike's documents both lie at its mean, so only the baseline's residuals (7.5) count.
    assert row["perplexity_stderr"] == pytest.approx(math.exp(1.75) * error)


def test_a_text_in_two_domains_is_one_document(empty):
    # In a both domains hold the same texts, in b others: their errors add up, or as squares.
    for method, far in (("mix", 0.0), ("pike", 1.0)):
        for scenario, second in (("s", 0), ("r", 9)):
            name = run(empty, method, scenario=scenario)
            for domain, first in (("a", 0), ("b", second)):
                documents(empty, name, domain, (1 + far, 1), (1, 1), (1, 1), first=first)
    found = {
        row["scenario"]: (row["nll_stderr"], row["nll_degrees"])
        for row in judged(empty, "select * from method_differences")
    }
    # Three values 1, 0, 0: SD sqrt(1/3), SE 1/3, 2 degrees.
    assert found["s"] == pytest.approx((1 / 3, 2))
    assert found["r"] == pytest.approx((1 / 3 / math.sqrt(2), 4))


def test_runs_pair_with_the_baseline_of_their_own_seed_and_scenario(empty):
    for scenario, seed, method in itertools.product("sr", (0, 1), ("mix", "pike")):
        name = run(empty, method, seed, scenario=scenario)
        # A seed is hard or easy for both.
        documents(empty, name, "a", (9 * seed + (method == "pike") * (1 + seed), 1))
    columns = "scenario, method, against, seeds, nll_difference, nll_seed_sd, nll_stderr"
    found = judged(empty, f"select {columns} from method_differences")
    # Differences of 1 and 2; one document has no error.
    expected = ["pike", "mix", 2, 1.5, pytest.approx(0.5**0.5), None]
    assert [list(row.values()) for row in found] == [["r", *expected], ["s", *expected]]


def test_a_domain_without_common_documents_spoils_the_average(empty):
    for method in ("mix", "pike"):
        name = run(empty, method)
        documents(empty, name, "a", (10, 10), (10, 10))
        documents(empty, name, "b", *([(10, 10)] if method == "mix" else [(10, 11)]))
    assert [row["domain"] for row in judged(empty, "select domain from loss_tests")] == ["a"]


def test_methods_of_a_scenario_are_corrected_together(empty):
    # What serves others is no part of the family, nor is a method of one seed.
    methods = {"mix": 0.0, "pike": -0.3, "ado": -0.2, "proxy": -0.1}
    for seed, (position, (method, apart)) in itertools.product(
        range(3), enumerate(methods.items())
    ):
        name = run(empty, method, seed, position=position)
        documents(empty, name, "a", *[(5 + apart * (1 + 0.1 * seed), 1)] * 20)
    documents(empty, run(empty, "lone", position=9), "a", *[(1.0, 1)] * 20)
    config = '{"runs": [{"methods": ["mix", "pike", "ado", "lone"]}]}'
    empty.execute("update experiment set config = ?", [config])
    found = {r["method"]: r for r in judged(empty, "select * from method_differences")}
    # Means of seeds 1, 1.1 and 1.2 times as far: t = 1.1 sqrt(3) / 0.1 with 2 degrees for all.
    p = found["pike"]["nll_p"]
    assert p == pytest.approx(0.00274, rel=0.01)
    assert found["pike"]["nll_p_holm"] == pytest.approx(2 * p)
    assert found["ado"]["nll_p_holm"] == pytest.approx(2 * p)
    assert found["proxy"]["nll_p"] == pytest.approx(p)
    assert found["proxy"]["nll_p_holm"] is None
    assert (found["lone"]["nll_p"], found["lone"]["seeds"]) == (None, 1)


def paired(connection, *differences, documents_error=0.0):
    """Seeds whose loss in one domain lies above the baseline's by the given differences."""
    for seed, difference in enumerate(differences):
        for position, (method, add) in enumerate((("mix", 0.0), ("pike", difference))):
            name = run(connection, method, seed, position=position)
            evaluated(connection, name, a=(1.0 + add, 0.1))
            # Twenty documents of one token: residuals +-e sqrt(19), SE = e.
            error = 19**0.5 * documents_error if method == "pike" else 0.0
            sums = ((1.0 + add + error, 1), (1.0 + add - error, 1)) * 10
            documents(connection, name, "a", *sums)
    loss_tests.fill_loss_tests(MeasuredResults(connection))


@pytest.mark.parametrize(
    ("differences", "of_documents", "stderr", "half"),
    [
        # SD 0.1414 / sqrt 2 = 0.1; one degree of freedom: 12.706 * 0.1.
        ((-0.1, -0.3), 0.0, 0.1, 1.2706),
        # One seed: over 20 documents, 19 degrees.
        ((-0.2,), 0.05, 0.05, 2.093 * 0.05),
    ],
)
def test_intervals_of_a_difference(empty, differences, of_documents, stderr, half):
    paired(empty, *differences, documents_error=of_documents)
    row = one(empty, "select * from method_differences")
    expected = {"nll_difference": -0.2, "nll_stderr": stderr}
    expected |= {"nll_low": -0.2 - half, "nll_high": -0.2 + half}
    assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    assert row["seeds"] == row["seeds_better"] == len(differences)


def test_a_domain_that_the_target_leaves_out_is_compared_and_counts_nothing(empty):
    empty.execute("delete from domains")
    for position, (domain, target) in enumerate((("a", 1), ("b", 0))):
        empty.execute("insert into domains values ('s', ?, ?, ?)", [domain, position, target])
    for seed in (0, 1):
        for position, (method, add) in enumerate((("mix", 0.0), ("pike", 0.25))):
            name = run(empty, method, seed, position=position)
            evaluated(empty, name, a=(1.0, 0.1), b=(1.0 + add, 0.1))
            documents(empty, name, "a", (1.0, 1), (1.0, 1))
            documents(empty, name, "b", (1.0 + add, 1), (1.0 + add, 1))
    loss_tests.fill_loss_tests(MeasuredResults(empty))
    found = empty.execute("select domain, nll_difference from loss_tests where method = 'pike'")
    assert dict(found.fetchall()) == {"a": 0.0, "b": 0.25, None: 0.0}


def test_chance_follows_from_the_number_of_candidates(empty):
    name = run(empty, "mix")
    for step, value in ((5, 0.0), (10, 50.0)):
        scored(empty, name, "t", value, step=step, stderr=10.0, examples=2)
    for item, candidates in (("0", 2), ("1", 4)):
        row = {"run": name, "step": 10, "task": "t", "shots": 0, "formulation": "cf"}
        insert(empty, "choices", row | {"item": item, "sum_log_likelihood": [0.0] * candidates})
    row, mean = query_rows(empty, "select * from method_accuracies order by task desc")
    # One task is its own mean.
    assert mean | {"examples": 2, "task": "t"} == row
    assert (row["value"], row["stderr"], row["examples"]) == (50.0, 10.0, 2)
    assert row["chance"] == pytest.approx(100 * (1 / 2 + 1 / 4) / 2)


def test_noise_scale_is_missing_where_no_signal_is_left(empty):
    name = run(empty, "pike")
    row = {"run": name, "step": 0, "domain": "a", "variance": 4.0}
    insert(empty, "gradient_statistics", row | {"squared_norm_unbiased": 0.5})
    insert(empty, "gradient_statistics", row | {"squared_norm_unbiased": -0.1})
    scales = empty.execute("select noise_scale from gradient_statistics").fetchall()
    assert scales == [(8.0,), (None,)]
    # The figure divides the means: 4 / 0.2.
    assert one(empty, "select noise_scale from figure_gradients") == {
        "noise_scale": pytest.approx(20)
    }


def test_effective_domains_are_the_exponential_of_the_weights_entropy(empty):
    # exp(H): 4 for equal weights; 1/2, 1/4, 1/4, 0 has H = 3/2 ln 2, so 2^1.5; 1 for all on one.
    weights = {0: [0.25] * 4, 1: [0.5, 0.25, 0.25, 0.0], 2: [0.0, 1.0, 0.0, 0.0]}
    for step, values in weights.items():
        for domain, weight in zip("abcd", values, strict=True):
            row = {"run": "r", "step": step, "domain": domain, "weight": weight, "count": 1}
            insert(empty, "weights", row)
    found = empty.execute("select run, step, effective from effective_domains").fetchall()
    assert [(run, step) for run, step, _ in found] == [("r", 0), ("r", 1), ("r", 2)]
    assert [value for *_, value in found] == pytest.approx([4, 2**1.5, 1])


def test_weights_are_averaged_over_stretches(empty):
    name = run(empty, "round-robin")
    for step in range(100):
        row = {"run": name, "step": step, "domain": "a", "weight": float(step % 2)}
        insert(empty, "weights", row)
    found = empty.execute("select step, weight from figure_weights").fetchall()
    assert found == [(step, 0.5) for step in range(2, 102, 2)]


def test_losses_show_their_interval_over_seeds_and_documents(empty):
    for seed, nll in enumerate((1.0, 1.5, 2.0)):
        evaluated(empty, run(empty, "mix", seed), a=(nll, 0.1))
    row = one(empty, "select nll, low, high, seeds from figure_losses")
    # The seeds' standard deviation is 0.5: Student's t of two degrees, 4.303, for its part.
    half = math.sqrt((4.303 * 0.5) ** 2 / 3 + (1.96 * 0.1) ** 2)
    assert row == pytest.approx({"nll": 1.5, "low": 1.5 - half, "high": 1.5 + half, "seeds": 3})


def test_every_point_of_a_curve_is_over_the_same_seeds(empty):
    names = [run(empty, "mix", seed) for seed in (0, 1)]
    evaluated(empty, names[0], step=5, a=(3.0, 0.1))
    # A method without a curve is shown on the seed of the curve beside it.
    names += [run(empty, "pike", seed, position=1) for seed in (0, 1)]
    for name, nll in zip(names, (1.0, 2.0, 4.0, 5.0), strict=True):
        evaluated(empty, name, a=(nll, 0.1))
    found = empty.execute("select method, step, nll, seeds from figure_losses").fetchall()
    assert found == [("mix", 5, 3.0, 1), ("mix", 10, 1.0, 1), ("pike", 10, 4.0, 1)]


def test_differences_to_the_baseline_are_over_the_seeds_of_both(empty):
    for method, losses in (("mix", {0: 2.0, 1: 3.0}), ("pike", {1: 2.5, 2: 9.0})):
        for seed, nll in losses.items():
            evaluated(empty, run(empty, method, seed), a=(nll, 0.1))
    found = one(empty, "select method, step, difference from figure_differences")
    assert found == {"method": "pike", "step": 10, "difference": -0.5}


def test_similarities_are_means_over_seeds_by_pair(empty):
    for seed, cosine in enumerate((0.2, 0.4)):
        row = {"run": run(empty, "mix", seed), "step": 5, "domain_a": "a", "domain_b": "b"}
        insert(empty, "similarities", row | {"cosine": cosine, "ratio": 2.0})
    row = one(empty, "select pair, cosine, ratio, cosine_corrected from figure_similarities")
    assert row == {
        "pair": "a and b",
        "cosine": pytest.approx(0.3),
        "ratio": 2.0,
        "cosine_corrected": None,
    }


def cells(connection, table, column):
    """Shown cells of one column by row."""
    sql = f"select row_label, value from {table} where column_label = ?"
    return dict(connection.execute(sql, [column]).fetchall())


def test_perplexity_table_shows_baselines_below_the_methods(empty):
    evaluated(empty, run(empty, "mix"), a=(math.log(4), 0.1), b=(math.log(1006), 0.1))
    for source, floor in (("a", math.log(2)), ("b", None)):
        row = {"tokenizer": "t", "source": source, "split": "validation", "floor_nats": floor}
        row |= {"uniform_nats": math.log(512), "unigram_nats": math.log(8)}
        insert(empty, "corpora", row)
    assert cells(empty, "table_perplexity", "a") == pytest.approx(
        {"mix": 4, "uniform guess": 512, "unigram counts": 8, "entropy floor": 2}
    )
    # No floor is known for b, so none for the mean.
    assert cells(empty, "table_perplexity", "mean") == pytest.approx(
        {"mix": 505, "uniform guess": 512, "unigram counts": 8}
    )
    # What has four digits is shown without hundredths.
    digits = "select column_label, decimals from table_perplexity where row_label = 'mix'"
    assert {("a", 2), ("b", 0)} <= {*empty.execute(digits).fetchall()}
    # Where a alone counts, it has the means, and b takes nothing away.
    empty.execute("delete from domains")
    empty.execute("insert into domains values ('s', 'a', 0, 1), ('s', 'b', 1, 0)")
    assert cells(empty, "table_perplexity", "exp of mean loss") == pytest.approx(
        {"mix": 4, "uniform guess": 512, "unigram counts": 8, "entropy floor": 2}
    )


def test_perplexity_table_counts_seeds_and_pairs_with_the_baseline(empty):
    paired(empty, -0.1, -0.3)
    assert cells(empty, "table_perplexity", "seeds") == {"mix": 2, "pike": 2}
    against = cells(empty, "table_perplexity", "mean loss against mix")
    assert against == {"pike": pytest.approx(-0.2)}
    # Over the seeds of both: of one alone the table says so.
    empty.execute("update loss_tests set seeds = 1")
    for table in ("table_perplexity", "table_methods"):
        sql = f"select distinct pairs from {table} where column_label = 'mean loss against mix'"
        assert empty.execute(sql).fetchall() == [(1,)]


def test_costs_are_means_over_seeds(empty):
    for seed, seconds in enumerate((10.0, 14.0)):
        name = run(empty, "pike", seed, wall_seconds=seconds, tokens_per_second=100.0, resumes=1)
        insert(empty, "timings", run=name, phase="statistics", seconds=1.0, share=0.02)
    assert cells(empty, "table_costs", "wall time") == {"pike": 12.0}
    assert cells(empty, "table_costs", "statistics") == {"pike": pytest.approx(2.0)}
    assert cells(empty, "table_costs", "resumes") == {"pike": 2.0}


def test_gradients_table_has_the_first_and_the_last_firing(empty):
    name = run(empty, "pike")
    for step in (40, 80, 120):
        row = {"run": name, "step": step, "domain": "a", "variance": float(step)}
        insert(empty, "gradient_statistics", row | {"squared_norm_unbiased": 1.0})
    sql = "select row_label, value from table_gradients where quantity = 'variance'"
    assert empty.execute(sql).fetchall() == [("pike, step 40", 40.0), ("pike, step 120", 120.0)]


def test_accuracy_table_puts_baselines_of_the_task_in_their_place(empty):
    name = run(empty, "mix")
    row = {"run": name, "step": 10, "task": "t", "shots": 0, "formulation": "pmi", "stderr": 1.0}
    for metric, value in (("raw", 30.0), ("pmi", 60.0), ("answer_only", 25.0), ("overlap", 50.0)):
        insert(empty, "accuracies", row | {"metric": metric, "value": value, "examples": 9})
    cells = "from table_accuracy where column_label = 't' and row_label = 'mix'"
    assert empty.execute(f"select section, better {cells}").fetchall() == [
        ("s / m / formulation pmi, normalisation pmi, 0-shot", "higher"),
        ("s / m / formulation pmi, normalisation raw, 0-shot", "higher"),
        ("s / m / formulation pmi, normalisation answer_only, 0-shot", None),
    ]
    below = "select value from table_accuracy where row_label = 'token overlap' and unit = '%'"
    assert {value for (value,) in empty.execute(below).fetchall()} == {50.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("differences", "pike"), [((-0.2, -0.201, -0.202), True), ((-0.2,), False)]
)
def test_perplexity_is_significant_below_zero_over_two_seeds(empty, differences, pike):
    paired(empty, *differences, documents_error=0.001)
    sql = "select distinct significant from table_perplexity where better <> '' and method = "
    assert empty.execute(f"{sql} 'pike'").fetchall() == [(pike,)]
    assert empty.execute(f"{sql} 'mix'").fetchall() == [(False,)]


def accuracy(connection, name, value, stderr=1.0, task="t"):
    """One accuracy in percent, of two items with four candidates each."""
    scored(connection, name, task, value, stderr=stderr, examples=2)
    own = {"run": name, "step": 10, "task": task, "shots": 0, "formulation": "cf"}
    for item in ("0", "1"):
        insert(connection, "choices", own | {"item": item, "sum_log_likelihood": [0.0] * 4})


def test_cells_that_are_not_above_chance_say_so(empty):
    for method, value, stderr in (("mix", 27.0, 1.0), ("pike", 26.5, 1.0), ("random", 60, None)):
        accuracy(empty, run(empty, method), value, stderr)
    sql = "select row_label, above_chance from table_accuracy where column_label = 't'"
    found = dict(empty.execute(sql).fetchall())
    # 25 + 1.96: 27 is above it, 26.5 is not; without an error nothing is known.
    above = {"mix": True, "pike": False, "random": False}
    assert found == above | {"chance": None, "items": None}


def test_a_mean_over_tasks_varies_as_its_runs_do(empty):
    # One model answers both tasks: means of 40 and 60, SD 20 / sqrt(2), t(1) = 12.706.
    for seed, value in enumerate((40.0, 60.0)):
        name = run(empty, "mix", seed)
        for task in "tu":
            accuracy(empty, name, value, stderr=0.0, task=task)
    where = "row_label = 'mix' and column_label = 'mean'"
    sql = f"select value, error, above_chance from table_accuracy where {where}"
    assert empty.execute(sql).fetchall() == [(50.0, pytest.approx(127.06), False)]


@pytest.mark.parametrize(
    ("p", "seeds", "difference", "expected"),
    [(0.04, 3, 3.0, True), (0.06, 3, 3.0, False), (0.04, 2, 3.0, False), (0.04, 3, -3.0, False)],
)
def test_accuracy_is_significant_by_the_corrected_test(empty, p, seeds, difference, expected):
    for method in ("mix", "pike"):
        accuracy(empty, run(empty, method), 50.0)
    for task in ("t", "mean"):
        row = {"scenario": "s", "model": "m", "task": task, "shots": 0, "formulation": "cf"}
        row |= {"metric": "per_token", "method": "pike", "against": "mix", "p_holm": p}
        insert(empty, "accuracy_tests", row | {"seeds": seeds, "difference": difference})
    sql = "select column_label, significant from table_accuracy where row_label = 'pike'"
    found = dict(empty.execute(sql).fetchall())
    assert (found["t"], found["mean"], found["mean against mix"]) == (expected,) * 3
    assert cells(empty, "table_accuracy", "p") == {"pike": p}


def test_speedups_say_what_is_not_reached(empty):
    run(empty, "mix")
    row = {"scenario": "s", "model": "m", "quantity": "loss", "against": "mix", "seeds": 1}
    # An accuracy near chance may be there before a method trains.
    for method, *ends in (("pike", 1.9, 1.5, math.inf), ("random", None, None, None)):
        run(empty, method)
        found = dict(zip(("ratio", "low", "high"), ends, strict=True))
        insert(empty, "speedups", row | found | {"method": method})
    sql = (
        "select row_label, text, one_seed from table_speedups "
        "where column_label = 'speed-up' order by all"
    )
    # An interval of one seed is marked; without one there is nothing to mark.
    assert empty.execute(sql).fetchall() == [
        ("pike", "1.90 [1.50, from the start]", True),
        ("random", "not reached", False),
    ]


def test_only_a_run_that_never_moved_to_its_end_is_doubtful_for_it(empty):
    moved, unmoved = run(empty, "mix"), run(empty, "pike")
    for name, step in ((moved, 4), (unmoved, 4), (unmoved, 9)):
        insert(empty, "alarms", run=name, step=step, kind="never-moved")
    for kind in ("epochs", "nan-signal"):
        insert(empty, "alarms", run=moved, step=2, kind=kind)
    found = empty.execute("select run, mark from doubtful_runs").fetchall()
    assert found == [(unmoved, "unmoved")]


def drawn(connection, method, *counts, steps=40):
    """A run whose two domains have these rows, (steps, a, b) after each other."""
    name, step = run(connection, method, steps=steps), 0
    for length, *rows in counts:
        for _ in range(length):
            for domain, count in zip("ab", rows, strict=True):
                row = {"run": name, "step": step, "domain": domain, "count": count}
                insert(connection, "weights", row | {"weight": count / sum(rows)})
            step += 1
    return name


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        # 15 of 16 rows: exp(H) = 1.263; 14 of 15: 1.277; 13 of 14: 1.294; 12 of 13: 1.313.
        ([(20, 8, 8), (20, 13, 1)], "effective domains"),
        ([(20, 8, 8), (20, 12, 1)], None),
        # Nothing of b for a quarter of the steps, or for a step less.
        ([(10, 1, 1), (10, 2, 0), (20, 1, 1)], "no rows of b"),
        ([(10, 1, 1), (9, 2, 0), (21, 1, 1)], None),
        # One domain alone from the start, and one at a time, are as chosen.
        ([(40, 1, 0)], None),
        ([(1, 1, 0), (1, 0, 1)] * 20, None),
    ],
)
def test_what_counts_as_collapsed(empty, counts, reason):
    name = drawn(empty, "pike", *counts)
    found = empty.execute("select run, reason from collapsed").fetchall()
    assert found == ([(name, reason)] if reason else [])


def test_a_task_that_is_chance_by_construction_enters_no_mean(empty):
    name = run(empty, "mix")
    sources = {n: {"kind": "synthetic", "order": i} for i, n in enumerate(("noise", "easy"))}
    empty.execute("update experiment set config = ?", [json.dumps({"sources": sources})])
    for task, value in (("continuation-noise", 31.0), ("continuation-easy", 90.0)):
        accuracy(empty, name, value, task=task)
    assert cells(empty, "table_accuracy", "mean")["mix"] == 90.0
    assert cells(empty, "table_accuracy", "continuation-noise")["mix"] == 31.0
    better = "select better from table_accuracy where row_label = 'mix' and column_label = ?"
    assert empty.execute(better, ["continuation-noise"]).fetchone() == (None,)
    assert empty.execute(better, ["continuation-easy"]).fetchone() == ("higher",)


@pytest.mark.parametrize(
    ("scenario", "title"),
    [("symbols", "symbols: three synthetic languages"), ("s", "s"), ("glam", "six domains")],
)
def test_panels_bear_our_names_unless_the_scenario_bears_the_papers(created, scenario, title):
    about = {"symbols": {"about": "Three synthetic languages of known entropy, one"}}
    sql = "select panel_title(?, 'glam', 'six domains', ?::json)"
    found = created.execute(sql, [scenario, json.dumps({"scenarios": about})]).fetchone()
    assert found == (title,)


@pytest.mark.parametrize(
    ("p", "seeds", "difference", "stderr", "words"),
    [
        (None, None, None, None, None),
        (None, 1, 5.0, 1.0, "too few seeds to tell"),
        (None, 2, 5.0, 1.0, "too few seeds to tell"),
        (None, 3, 5.0, 1.0, "too few documents to tell"),
        (0.05, 3, 5.0, 1.0, "no difference shown"),
        (0.04, 3, 5.0, 1.0, "better"),
        (0.04, 3, -5.0, 1.0, "worse"),
        (0.04, 1, 5.0, 1.0, "better with this seed; another may differ"),
        (1.0, 3, 0.0, 1.0, "no difference shown"),
        (1.0, 3, 0.0, 0.0, "equal"),
    ],
)
def test_a_test_is_told_in_words(created, p, seeds, difference, stderr, words):
    sql = "select test_in_words(?, ?, ?, ?)"
    assert created.execute(sql, [seeds, p, difference, stderr]).fetchone() == (words,)
