"""Results as data frames."""

import math
from pathlib import Path

import nbformat
import pytest

from pike_mixing.errors import InputError
from pipeline.results.database_reader import frame, grid

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "results.ipynb"


def test_a_view_is_a_frame_in_its_own_order(made):
    losses = frame("figure_losses", made / "pike.duckdb")
    assert losses["scenario"].unique().tolist() == ["real", "languages"]
    assert losses.query("domain == 'easy'")["floor"].iloc[0] == pytest.approx(math.log(2))
    assert len(frame("runs", str(made / "pike.duckdb"))) == 24


def test_a_table_is_a_grid_as_readers_see_it(made):
    wide = grid(frame("table_perplexity", made / "pike.duckdb"))
    first = wide.loc["real / tiny"]
    assert first.index.tolist()[:2] == ["mix", "round-robin"]
    assert wide.columns.tolist()[-2:] == ["seeds", "paired seeds"]
    # What the columns hold of the two languages whose entropy is known: exp(ln 2), exp(ln 256).
    floors = wide.loc[("languages / tiny", "entropy floor")]
    assert (floors["easy (ppl)"], floors["noise (ppl)"]) == pytest.approx((2, 256))
    assert math.isnan(first.loc["mix", "paired seeds"])


@pytest.mark.parametrize(
    ("name", "row", "column", "shown"),
    [
        # Two columns of one label, told apart by their units; words; words beside numbers.
        ("table8", "GPT-2 small (110M, glam)", "overhead of PiKE (%)", 1.2),
        ("table6", "batch size", "value", "256"),
        ("table_claims", 0, "its verdict", "supported"),
        ("table_audit", 0, "stated", "40 of 40"),
    ],
)
def test_every_kind_of_table_has_a_grid(made, name, row, column, shown):
    wide = grid(frame(name, made / "pike.duckdb"))
    found = wide.iloc[row] if isinstance(row, int) else wide.xs(row, level="row_label").iloc[0]
    assert found[column] == shown


def test_an_unknown_name_is_answered_with_near_ones(made):
    for name, near in (("table_cost", "'table_costs'"), ("costs", "table_costs")):
        with pytest.raises(InputError, match=rf"{name}.*: did you mean {near}"):
            frame(name, made / "pike.duckdb")


@pytest.mark.slow
def test_the_notebook_runs_cell_by_cell(made, monkeypatch):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    (made.parent / "examples").mkdir(exist_ok=True)
    monkeypatch.chdir(made.parent / "examples")
    monkeypatch.setenv("MPLBACKEND", "agg")
    names = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs, "it is kept without outputs"
            exec(compile(cell.source, cell.id, "exec"), names)  # noqa: S102
    groups = names["runs"].groupby(["scenario", "model", "method"]).ngroups
    assert len(names["losses"]) == groups == 8
    assert names["losses"]["loss"].between(0, 12).all()
    assert names["weights"].groupby("step")["weight"].sum().round(6).eq(1).all()
