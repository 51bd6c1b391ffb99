"""Decisions: what is shown, what stays open, and how it is copied."""

import json
from pathlib import Path

import pytest
import yaml
from played import insert
from test_views import paired

from pike_mixing import make
from pike_mixing.comparison.detectable import detection_probability
from pike_mixing.errors import InputError
from pipeline.results import advice, headline, labels, number_marks

ROW = {"scenario": "s", "model": "m", "seeds": 3, "nll_document_stderr": 0.01}
ROW |= {"effective": 40, "nll_stderr": 0.02, "seeds_better": 1}


def row(method, difference, seed_sd=0.01, p=0.02, **values):
    ends = {"nll_low": difference - 0.05, "nll_high": difference + 0.05, "p": p, "p_holm": p}
    own = {"method": method, "nll_difference": difference, "nll_seed_sd": seed_sd}
    return ROW | ends | own | values


def judged(*rows):
    found = sorted(rows, key=lambda one: one["nll_difference"])
    advice._add_labels_and_verdicts(found, {one["method"]: one["method"].upper() for one in found})
    return found


def test_only_a_corrected_test_over_seeds_and_documents_decides():
    rows = judged(
        row("a", -0.2),
        row("b", 0.2),
        row("c", -0.1, p_holm=0.06),
        row("d", -0.9, None, None, seeds=2),
        row("e", -0.4, p=None, effective=19.9),
        row("f", 0.0, 0.0, 1.0, nll_stderr=0.0),
    )
    assert {one["method"]: one["verdict"] for one in rows} == {
        "a": "better", "b": "worse", "c": "not decided", "d": "few seeds", "e": "few documents",
        "f": "equal",
    }  # fmt: skip


def test_of_many_domains_with_little_text_some_are_named(monkeypatch):
    # A scenario of twenty domains filled a screen.
    small = [{"domain": f"d{n}", "documents": 190, "largest": 0.01} for n in range(20)]
    monkeypatch.setattr(advice, "query_rows", lambda *given: small)
    (warning,) = advice._small_validation_warnings(None, "t", "s")
    assert warning.count("190 documents, the largest 1% of its tokens") == 4
    assert "and 16 more is little or uneven" in warning
    small[:] = small[:4]
    assert " more is" not in advice._small_validation_warnings(None, "t", "s")[0]


def test_each_method_is_told_with_its_interval_and_verdict():
    place = {"scenario": "s", "model": "m", "title": "T", "size": "1 thousand parameters"}
    place |= {"text": [], "shares": {}, "fixed": True, "against": "Mix", "open": [], "warnings": []}
    rows = judged(row("a", -0.1, p=None, effective=5.0), row("b", 0.2, p_holm=0.06))
    # The interval of b is without zero, and may decide nothing.
    assert advice.decision_text(place | {"rows": rows}).splitlines()[-3:] == [
        "  Loss minus that of Mix, nats per token (95% interval of each alone): verdict after "
        "Holm's correction",
        "    A -0.100 (-0.150 to -0.050, 3 seeds): few documents; lower in 1 of 3",
        "    B +0.200 (+0.150 to +0.250, 3 seeds): not decided; lower in 1 of 3",
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seeds": 1, "p": None, "nll_seed_sd": None}, "2 more seeds, for a test at all"),
        # Twenty are asked for.
        ({"effective": 8}, "2.5 times the validation documents"),
        ({"effective": 1.9}, "more validation documents of the domain with the fewest, for a test"),
        # D = SD takes 10 seeds where documents have no error (power's own example).
        ({"nll_seed_sd": 0.1, "nll_document_stderr": 0.0}, "7 more seeds"),
        # Seeds that do not differ, D = SE / 2: 4 (1.960 + 0.842)^2 = 31.4, of 1000 tokens.
        (
            {"nll_seed_sd": 0.0, "nll_document_stderr": 0.2},
            "31.4 times the validation text (30.4 thousand more tokens)",
        ),
        # Ten seeds without an error of documents: 20 of them, and more text.
        ({"nll_seed_sd": 0.1, "nll_document_stderr": 0.2}, "17 more seeds and "),
        ({"nll_seed_sd": 2.0}, "more than 100 seeds"),
    ],
)
def test_what_is_open_says_what_would_settle_it(change, words):
    rows = judged(row("a", -0.1, p=0.5) | change)
    (needed,) = advice.evidence_needed_to_beat_baseline(rows, 1000)
    assert words in needed["text"]


def test_seeds_or_text_where_either_would_do():
    rows = judged(row("a", -0.1, seed_sd=0.06, p=0.5, seeds=6, nll_document_stderr=0.03))
    (found,) = advice.evidence_needed_to_beat_baseline(rows, 2_000_000)
    seeds, text = found["text"].split(", or ")
    assert seeds.endswith(("more seed", "more seeds"))
    assert "times the validation text" in text
    # As many times the text as is told do, and no fewer.
    error = 0.03 / (found["tokens"] / 2_000_000) ** 0.5
    assert detection_probability(0.1, 0.06, 6, error) == pytest.approx(0.8, abs=0.005)
    assert detection_probability(0.1, 0.06, found["seeds"], 0.03) >= 0.8


def test_a_method_that_leads_in_every_seed_is_used_and_equal_shares_stay_else(empty):
    _leads(empty, {"a": 0.25, "b": 0.75})
    (place,) = advice.read_decisions(empty)
    assert (place["decided"], place["chosen"]) == (True, "pike")
    assert place["shares"] == {"a": 0.25, "b": 0.75}
    assert place["text"][0] == "Use PiKE."
    assert "0.201 nats per token below that of Mix" in place["text"][1]
    assert place["text"][-1].startswith("This was measured with models of ")
    empty.execute(
        "update runs set settings = json_object('rule', method, 'method', json_object('zeta1', 1))"
    )
    (place,) = advice.read_decisions(empty)
    assert place["text"][-1].startswith("Its coefficients zeta1 and zeta2 depend on the model")


def test_a_rule_that_drew_the_baselines_shares_is_no_mixture(empty):
    _leads(empty, {"a": 0.5, "b": 0.5})
    (place,) = advice.read_decisions(empty)
    assert place["text"][0] == "Use PiKE."
    copied = advice.copyable_snippets(place)
    assert "PiKE drew the shares of Mix" in copied["interleave"]
    assert "probabilities" not in copied["interleave"]
    # Other shares than the baseline's may be why.
    empty.execute("update weights set count = if(domain = 'a', 4, 12) where run like '%pike%'")
    (place,) = advice.read_decisions(empty)
    assert "probabilities" in advice.copyable_snippets(place)["interleave"]


def test_each_kind_of_alarm_is_one_line_and_counted_in_the_summary(empty):
    # The baseline is kept, and nobody looks at the alarms of another method.
    paired(empty, 0.01, -0.01, 0.002, documents_error=0.001)
    _ran(empty, {"a": 0.5, "b": 0.5})
    (place,) = advice.read_decisions(empty)
    assert not any("alarm" in warning for warning in place["warnings"])
    raised = [
        ("never-moved", None, "steps - 1", "method = 'pike'"),
        # On the way, which may still change.
        ("never-moved", None, "4", "method = 'mix'"),
        ("epochs", "code", "9", "true"),
        ("epochs", "code", "19", "seed = 0"),
        ("epochs", "prose", "9", "method = 'mix' and seed = 0"),
    ]
    for kind, domain, step, where in raised:
        empty.execute(
            f"insert into alarms (run, kind, step, domain) select run, ?, {step}, ? from runs "
            f"where {where}",
            [kind, domain],
        )
    (place,) = advice.read_decisions(empty)
    assert [warning for warning in place["warnings"] if "alarm" in warning] == [
        "The method never changed how many rows a domain had in a batch, so its runs trained with "
        "its initial weights (alarm never-moved): PiKE (3 of 3 runs). No method changed the rows: "
        "initial weights were compared with Mix.",
        "A domain's text was read more often than the limit (4 times by default) (alarm epochs): "
        "Mix (3 of 3 runs), PiKE (3 of 3 runs); domains: code, prose.",
    ]
    line = advice._alarm_summary_line([place], Path("r/pike.duckdb"))
    assert line.startswith("Alarms: never-moved in 3 runs, epochs in 6 runs: `")
    assert line.endswith("pike advise r/pike.duckdb` names the methods and domains")


@pytest.mark.parametrize(
    ("target", "unmoved", "said"),
    [
        # It trained on the target, whatever its rule would have done.
        ({"a": 1, "b": 3}, 3, "Train on the target itself: the shares of PiKE."),
        ({"a": 1, "b": 3}, 2, "Use PiKE."),
        # On its first weights, which are not the target, and where there is no target.
        ({"a": 3, "b": 1}, 3, "Use the shares of PiKE."),
        ({"a": 1, "b": 1}, 3, "Use the shares of PiKE."),
    ],
)
def test_a_rule_that_never_moved_a_row_is_its_first_weights(empty, target, unmoved, said):
    _leads(empty, {"a": 0.25, "b": 0.75})
    for domain, weight in target.items():
        empty.execute("update domains set target = ? where domain = ?", [weight, domain])
    empty.execute(
        "insert into alarms (run, kind, step) select run, 'never-moved', steps - 1 from runs "
        "where method = 'pike' and seed < ?",
        [unmoved],
    )
    (place,) = advice.read_decisions(empty)
    assert place["text"][0] == said
    # Once, whatever marks the method has beside the alarm.
    (warning,) = [one for one in place["warnings"] if "never-moved" in one]
    assert f"PiKE ({unmoved} of 3 runs)" in warning
    copied = advice.copyable_snippets(place)["python"]
    assert ("make('fixed', weights_by_domain={'a': 0.25, 'b': 0.75})" in copied) == (unmoved == 3)


def test_settings_that_a_grid_chose_are_copied_with_the_methods_own(empty):
    _leads(empty, {"a": 0.25, "b": 0.75})
    empty.execute(
        "update runs set mixture = 's/m/zetas/seed9', settings = json_object('rule', 'pike', "
        "'method', json('{\"every\": 40, \"zeta1\": 9}')) where method = 'pike'"
    )
    facts = json.dumps({"chosen": {"zeta1": 2.0, "zeta2": 0.5}})
    insert(empty, "lineage", artifact="mixture/s/m/zetas/seed9", facts=facts)
    (place,) = advice.read_decisions(empty)
    assert place["rule"] == {"rule": "pike", "every": 40, "zeta1": 2.0, "zeta2": 0.5}
    names = {}
    # What a user copies from the report must run.
    exec(advice.copyable_snippets(place)["python"], names)  # noqa: S102
    assert names["method"] == make("pike", every=40, zeta1=2.0, zeta2=0.5)


def test_a_gain_that_is_shown_and_is_little_is_told_and_changes_nothing(empty):
    paired(empty, -0.004, -0.0041, -0.0042, documents_error=0.00001)
    _ran(empty, {"a": 0.25, "b": 0.75})
    (place,) = advice.read_decisions(empty)
    assert [one["verdict"] for one in place["rows"]] == ["better"]
    assert (place["decided"], place["chosen"]) == (False, "mix")
    assert place["text"][0] == "Keep equal shares (Mix)."
    assert "loss of PiKE is 0.004 nats per token below that of Mix" in place["text"][1]
    assert place["text"][2] == "Less than 0.005 nats is too little to change for."
    # What `make run` ends with has the reason, and names the user's own rule wherever it stands.
    config = json.dumps({"methods": {"pike": {"rule": "mine:Rule"}}})
    empty.execute("update experiment set config = ?", [config])
    (place,) = advice.read_decisions(empty)
    told = advice.decision_line(place)
    assert "too little to change for. PiKE (uniform): better (-0.004)." in told
    assert "It may be different" not in told


@pytest.mark.parametrize("differences", [(-0.2,), (-0.2, -0.2001)])
def test_one_seed_or_two_keep_the_baseline(empty, differences):
    paired(empty, *differences, documents_error=0.001)
    _ran(empty, {"a": 0.5, "b": 0.5})
    (place,) = advice.read_decisions(empty)
    assert (place["decided"], place["chosen"], place["tested"]) == (False, "mix", 0)
    assert place["text"][:2] == [
        "Keep equal shares (Mix).",
        "No method has 3 seeds, the least for an answer.",
    ]
    assert [one["method"] for one in place["open"]] == ["pike"]


def test_few_documents_are_the_reason_also_where_losses_are_equal():
    rows = judged(row("a", 0.0, 0.0, None, nll_stderr=0.0, effective=5.9))
    assert [one["verdict"] for one in rows] == ["equal"]
    place = {"against": "Mix", "baseline": "mix", "decided": False, "tested": 0, "rows": rows}
    place |= {"fewest": {"domain": "code", "effective": 5.9}}
    told = [*advice.decision_sentences(place | {"size": "1 parameter", "tokens": "2 tokens"})]
    assert told[1:] == [
        "The validation text of code tells as much as 5.9 documents of equal length would. An "
        "answer needs 20: these runs cannot say which method is better.",
        "This was measured with models of 1 parameter after 2 tokens. It may be different for "
        "larger models or longer training: these runs cannot say.",
    ]


def _leads(connection, shares):
    """PiKE is ahead of Mix in each of three seeds, and drew these shares as Mix did."""
    paired(connection, -0.2, -0.201, -0.202, documents_error=0.001)
    _ran(connection, shares)


def _ran(connection, shares):
    """Gives the runs what they have beyond their losses."""
    connection.execute(
        "update runs set parameters = 1000, tokens = 2000, tokenizer = 't', "
        "settings = json_object('rule', method, 'method', json('{}'))"
    )
    connection.execute("update experiment set config = '{}'")
    connection.execute("delete from domains")
    for position, (domain, share) in enumerate(shares.items()):
        connection.execute("insert into domains values ('s', ?, ?, 1)", [domain, position])
        connection.execute(
            "insert into weights select run, 0, ?, ?, ? from runs", [domain, share, int(16 * share)]
        )


PLACE = {
    "scenario": "text",
    "model": "nano",
    "fixed": True,
    "own_shares": True,
    "shares": {"en": 0.25, "de": 0.75},
    "rule": {"rule": "fixed", "weights_by_domain": {"en": 0.25, "de": 0.75}},
}


def test_what_is_copied_makes_the_method(tmp_path):
    # A target may leave a domain out.
    copied = advice.copyable_snippets(PLACE | {"shares": {"fr": 0.0, **PLACE["shares"]}})
    (values,) = yaml.safe_load(copied["yaml"])["methods"].values()
    assert values == PLACE["rule"]
    names = {}
    exec(copied["python"], names)  # noqa: S102
    assert names["method"] == make("fixed", weights_by_domain=PLACE["shares"])
    taken = {}
    names = {"parts": {"en": 1, "de": 2}, "interleave_datasets": lambda *a, **k: taken.update(k)}
    exec(copied["interleave"], names)  # noqa: S102
    assert taken["probabilities"] == [0.25, 0.75]


@pytest.mark.slow
def test_the_command_answers_for_people_and_machines(made):
    database = made / "pike.duckdb"
    assert "Keep equal shares (Mix)." in advice.advise(database)
    (place,) = json.loads(advice.advise(database, scenario="languages", format="json"))
    assert place["shares"] == dict.fromkeys(["easy", "hard", "noise"], 1 / 3)
    assert place["rule"] == {"rule": "mix"}
    (place,) = json.loads(advice.advise(database, scenario="real", format="json"))
    assert place["text"][0] == "Use PiKE."
    assert place["rule"]["rule"] == "pike"
    assert sum(place["shares"].values()) == pytest.approx(1)
    with pytest.raises(InputError, match="give --scenario and --model"):
        advice.advise(database, format="yaml")
    with pytest.raises(InputError, match="'reel' is unknown"):
        advice.advise(database, scenario="reel")


@pytest.mark.slow
def test_what_has_too_few_seeds_is_named_below_the_others(made, monkeypatch):
    read, few = advice.read_decisions, {"rows": judged(row("a", -0.1, seeds=2))}
    monkeypatch.setattr(
        advice,
        "read_decisions",
        lambda of: [p | few if p["scenario"] == "real" else p for p in read(of)],
    )
    told = advice.advise(made / "pike.duckdb")
    assert told.startswith("languages / tiny: ")
    assert told.endswith("Too few seeds for a verdict: real / tiny")


def test_a_rule_is_spelt_as_its_class():
    known = {
        "balanced-pike": "Balanced-PiKE",
        "odm": "Online Data Mixing",
        "mine:MyRule": "My Rule",
    }
    assert {rule: labels.rule_label(rule) for rule in known} == known


@pytest.mark.parametrize(
    ("number", "words"),
    [(999, "999"), (1000, "1 thousand"), (999_499, "999 thousand"), (999_680, "1 million")],
)
def test_an_amount_has_three_digits(number, words):
    assert labels.amount_in_words(number) == words


def test_a_method_is_told_by_what_sets_it_apart():
    known = {"pike": {"rule": "pike", "zeta2": 0.2}}
    for name, values, label in (
        ("pike-x", {"rule": "pike", "zeta2": 0.02}, "PiKE, zeta2 0.02"),
        ("pike-glam-init", {"rule": "pike", "prior": {}}, "PiKE (GLaM)"),
        ("doremi-proxy", {"rule": "doremi"}, "DoReMi (proxy)"),
        ("single-code", {"rule": "single", "domain": "code"}, "Code alone"),
        ("mine", {"rule": "fixed"}, "Mine"),
        ("pike-tuned", {"rule": "pike", "grid": "zetas"}, "PiKE (tuned)"),
    ):
        assert labels._method_label(name, values, known) == label


def test_a_label_names_settings_that_hold_where_the_method_ran(empty):
    methods = {"pike": {"rule": "pike", "every": 40}, "pike-seldom": {"rule": "pike", "every": 80}}
    own = {"pike": {"every": 30}, "pike-seldom": {"every": 60}}
    config = {"methods": methods, "scenarios": {"text": ["a"], "symbols": {"methods": own}}}
    empty.execute("update experiment set config = ?", [json.dumps(config)])
    for scenario, label in (("symbols", "PiKE, every 60"), ("text", "PiKE (seldom)")):
        insert(empty, "runs", run=scenario, scenario=scenario, method="pike-seldom")
        assert labels.method_labels(empty)["pike-seldom"] == label


def test_one_axis_that_hopeless_methods_do_not_rule():
    ends = [row("a", 0.0), row("b", 0.05), row("c", -0.05), row("d", 5.0)]
    place = {"scenario": "s", "model": "m", "rows": judged(*ends)}
    shown = headline.headline_picture_facts([place], {})
    # The far ends are 0.05, 0.1, 0.1 and 5.05: twice the second.
    assert shown["limit"] == pytest.approx(0.2)
    (block,) = shown["blocks"]
    assert [(one["x"], one["cut"]) for one in block["lines"]] == [
        (37.5, ""), (50, ""), (62.5, ""), (100, "right"),
    ]  # fmt: skip
    assert (
        len(headline.headline_picture_facts([place], {}, unfolded_per_place=3)["blocks"][0]["more"])
        == 1
    )


def test_signs_say_in_how_many_of_how_many_runs():
    (note,) = number_marks.notes_with_counts({"PiKE": {"unmoved": "3 of 5"}, "Mix": {}})
    assert note.startswith("§: in some runs the method never changed how many rows")
    assert note.endswith("(alarm never-moved). PiKE: 3 of 5 runs.")
