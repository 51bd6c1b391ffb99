"""Our downstream tasks beside lm-evaluation-harness: docs/lm-eval.md holds the same cells."""

import numpy as np
import pytest

from pipeline.evaluation.grading import METRICS
from pipeline.tasks import registry

pytest.importorskip("lm_eval")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from benchmarks import oracle


@pytest.mark.slow
def test_the_harness_gives_our_accuracies_on_every_task(tmp_path):
    cells = oracle.compared(tmp_path, registry.TASKS, oracle.SHOTS)
    assert [cell.name for cell in cells if not cell.agrees] == []
    assert len(cells) == 7 * 2 * 3
    for cell in cells:
        for side in ("pike", "hf"):
            assert cell.other_picks(side) == 0
            assert cell.difference(side) < 1e-4
    page = oracle.document(cells)
    row = next(line for line in page.splitlines() if line.startswith("| piqa, 7-shot, cf"))
    told = cells[[cell.name for cell in cells].index("piqa, 7-shot, cf")].sides["hf"].accuracy
    shown = [f"{told[metric]:.1f}" for metric in METRICS]
    assert row.split(" | ")[1:9] == ["12", *shown, "0"]
    assert page.endswith("Equal in all accuracies: 42 of 42.\n")


def test_a_difference_is_shown_and_counted():
    ours = oracle.Told(
        dict.fromkeys(METRICS, 50.0), {metric: [0, 1] for metric in METRICS}, [np.zeros(2)]
    )
    theirs = oracle.Told(
        {**ours.accuracy, "sum": 0.0}, {**ours.picks, "sum": [1, 1]}, [np.array([0.0, 0.5])]
    )
    cell = oracle.Cell("a task", 2, {"ours": ours, "pike": ours, "hf": theirs})
    assert not cell.agrees
    assert (cell.other_picks("pike"), cell.other_picks("hf"), cell.difference("hf")) == (0, 1, 0.5)
    page = oracle.document([cell])
    assert "| 50.0 | 50.0 / 50.0 / 0.0 | 50.0 |" in page
    assert page.endswith("0 of 1.\n")
