import pytest

from pipeline.results import provenance

VERDICT = {
    "scenario": "s", "model": "m", "baseline": "mix", "best": "pike", "seeds": 3, "nll": 1.5,
    "nll_difference": -0.0714, "nll_low": -0.1, "nll_high": -0.04, "seeds_better": 3,
    "paired_seeds": 3, "best_arithmetic": "pike", "best_arithmetic_perplexity": 9.0,
    "verdict": "better",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ["0.071 nats below mix", "-0.100 to -0.040", "3 seeds; ahead in 3 of 3"]),
        ({"verdict": "baseline", "best": "mix"}, ["No method", "than mix"]),
        ({"verdict": "one seed", "paired_seeds": 1}, ["1 seed: no error bar over seeds"]),
        ({"verdict": "not significant"}, ["The interval holds zero", "3 seeds", "told apart"]),
        ({"verdict": "not significant", "paired_seeds": 1}, ["over documents)", "with 1 seed"]),
        ({"verdict": "no pairs", "nll_difference": None}, ["1.500 nats", "There is no run of mix"]),
    ],
)
def test_sentences_claim_no_more_than_the_verdict(change, words):
    text = provenance.sentence(VERDICT | change)
    for word in words:
        assert word in text


def test_the_papers_average_is_mentioned_where_it_disagrees():
    assert provenance.aside(VERDICT) == ""
    assert "mix is best (9.00)" in provenance.aside(VERDICT | {"best_arithmetic": "mix"})


def test_intervals_share_a_scale_that_a_hopeless_method_does_not_rule():
    def row(middle, half):
        low, high = middle - half, middle + half
        return {"nll_difference": middle, "nll_low": low, "nll_high": high}

    found, _ = provenance.intervals([row(0.0, 0.1), row(0.1, 0.1), row(-0.1, 0.1), row(5.0, 0.1)])
    # The far ends are 0.1, 0.2, 0.2 and 5.1, so the scale reaches to 0.4.
    assert [r["x"] for r in found] == [50, 62.5, 37.5, 100]
    assert (found[1]["x_low"], found[1]["x_high"]) == (50, 75)
    assert [r["cut"] for r in found] == ["", "", "", "right"]
    assert provenance.intervals([]) == ([], 1.0)


def test_decisions_that_differ_from_the_paper_are_listed(tmp_path, monkeypatch):
    page = tmp_path / "decisions.md"
    page.write_text(
        "# Decisions\n\nDeviation from the paper: not in a section.\n\n"
        "## 0001 Counts\n\nDeviation from the paper: other\nrounding.\n\nMore.\n\n"
        "## 0002 Silent\n\nMore.\n\n"
        "## 0003 Last\n\nDeviation from the paper: another seed."
    )
    monkeypatch.setattr(provenance, "DECISIONS", page)
    assert provenance.deviations() == [
        {"title": "0001 Counts", "what": "Other rounding."},
        {"title": "0003 Last", "what": "Another seed."},
    ]
    monkeypatch.setattr(provenance, "DECISIONS", tmp_path / "absent")
    assert provenance.deviations() == []


def test_the_decisions_of_the_project_are_read():
    found = provenance.deviations()
    assert found[0]["title"] == "0001 Counts by largest remainder"
    assert len(found) == provenance.DECISIONS.read_text().count("\nDeviation from the paper: ")


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        ("better", "pike is lowest, -0.013 nats against mix (-0.020 to -0.006, 3 seeds)."),
        ("one seed", "pike is lowest, -0.013 nats against mix (-0.020 to -0.006, 3 seeds)."),
        ("baseline", "no method is below mix."),
        ("no pairs", "pike is lowest; no run of mix to compare it with."),
    ],
)
def test_a_verdict_fits_half_a_line(verdict, told):
    row = {"verdict": verdict, "best": "pike", "baseline": "mix", "nll_difference": -0.013,
           "nll_low": -0.02, "nll_high": -0.006, "paired_seeds": 3}  # fmt: skip
    assert provenance.brief(row) == told
