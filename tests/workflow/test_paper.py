"""The paper at full scale, planned offline."""

import pytest

pytestmark = pytest.mark.workflow

PAPER = ("--configfile", "workflow/configs/paper.yaml")
METHODS = (
    "mix", "round-robin", "random", "famo", "ado", "pike", "balanced-pike-tau1",
    "balanced-pike-tau3", "balanced-pike-tau5",
)  # fmt: skip


def test_the_paper_plans_all_its_tables_and_figures(default):
    planned = default.plan(*PAPER)
    assert {f"table table{n}" for n in range(1, 15)} <= planned
    assert {f"figure figure{n}" for n in (1, 2, 4, 5, 6, 7, 8)} <= planned
    assert sum(job.startswith("pretrain ") for job in planned) == 87


def test_table_1_plans_its_nine_runs_alone(default):
    planned = default.plan("results/paper/tables/table1.md", *PAPER)
    trained = {job for job in planned if job.startswith("pretrain ")}
    assert trained == {f"pretrain mc4-en-hi-de/gpt2-large/{m}/seed0" for m in METHODS}
    assert {job for job in planned if job.startswith("download ")} == {
        "download en",
        "download hi",
        "download de",
    }
    assert not any(job.startswith("probe ") for job in planned)
