"""Pages of benchmarks are those of the recorded results."""

import json

import pytest

from benchmarks import error_rates_page, estimators, measure, performance_page

RECORD = {"a": {"b c": 3.0, "d": 2}, "date": "1 May", "machine": {"cpus": 2}}
ROW = {"what": "speed", "peer": "theirs", "theirs": "a:d", "form": "{:.2f} x"}


def test_the_page_is_that_of_the_results():
    assert performance_page.PAGE.read_text(encoding="utf-8") == performance_page.page(
        performance_page.RESULTS
    ), "run python -m benchmarks.performance_page"


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("estimators", estimators),
        # It integrates over the distributions of half a million samples.
        pytest.param("error_rates", error_rates_page, marks=pytest.mark.slow),
    ],
)
def test_a_page_of_its_own_is_that_of_its_record(name, of):
    record = json.loads((performance_page.RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    assert of.PAGE.read_text(encoding="utf-8") == of.page(record)


def test_rates_of_wrong_verdicts_are_counted():
    cells = [{"draws": 100, "wrong": 4}, {"draws": 300, "wrong": 4}]
    assert error_rates_page.mean(cells) == 0.02
    # sqrt(0.02 * 0.98 / 400) = 0.007, times 1.96.
    assert error_rates_page.half(cells) == pytest.approx(1.372, abs=1e-3)


@pytest.mark.parametrize(
    ("measured", "bound", "shown"),
    [
        ("a:b c", "at least 2.5", "3.00 x | at least 2.50 x"),
        ("a:b c", "at most 2.5", "3.00 x | **at most 2.50 x**"),
        ("a:b c / a:d", "at least 1.6", "1.50 x | **at least 1.60 x**"),
        ("a:b c - a:d", "at most 1", "1.00 x | at most 1.00 x"),
        ("a:d", "", "2.00 x | "),
        ("a:e / a:d", "at most 1", "not measured | at most 1.00 x"),
    ],
)
def test_a_bar_is_held_or_missed(measured, bound, shown):
    line = performance_page.line(RECORD, {**ROW, "measured": measured, "bound": bound})
    assert line == f"| speed | {shown} | theirs: 2.00 x |"


def test_bars_of_what_is_not_recorded_are_shown_all_the_same(tmp_path):
    text = performance_page.page(tmp_path)
    assert "`python -m benchmarks.gpu_check`: not recorded yet." in text
    name = "model-FLOPs utilisation, 750M-32K"
    assert f"| {name} | not measured | at least 50% |  |" in text


def test_sizes_that_are_not_measured_again_stay_in_the_record(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["benchmark", "--out", str(tmp_path / "loss.json")])
    chosen = measure.arguments("A benchmark.", "loss")
    for size, number in (("small", 1), ("large", 2), ("small", 3)):
        chosen.load = number
        measure.record(chosen, {"losses": {size: number}}, ("losses",))
    found = json.loads(chosen.out.read_text(encoding="utf-8"))
    assert found["losses"] == {"small": 3, "large": 2}
    assert found["of_size"]["large"]["machine"]["load_before"] == 2
    assert [
        part.split(" to ")[0] for part in performance_page.where(found).split(", load ")[1:]
    ] == [
        "3.0",
        "2.0",
    ]


def test_every_step_is_taken_once_a_round_in_an_order_that_turns():
    order = []

    def step(name):
        def take(number):
            order.append((number, name))
            return measure.Seconds(number, 2 * number)

        return take

    found = measure.turns({name: step(name) for name in "ab"}, rounds=2)
    assert order == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]
    assert measure.processor(found["a"]) == [2, 4]
    assert measure.ratios([3, 8, 2], [1, 2, 2]) == {"median": 3, "range": [1, 4]}
