import pytest
from made_up import write_output

from pike_mixing.errors import InputError
from pipeline.results import drawing, figures, tables
from pipeline.runtime import atomic_files


def read(shown, name):
    return atomic_files.read_json(shown / f"figures/{name}.json")


def test_losses_have_a_panel_per_domain_and_a_line_per_method(shown):
    data = read(shown, "losses")
    titles = [(p["scenario"], p["title"]) for p in data["panels"]]
    assert titles[0] == ("real", "code")
    assert len(titles) == 6
    (easy,) = (p for p in data["panels"] if p["title"] == "easy")
    assert [s["key"] for s in easy["series"]] == ["mix", "pike"]
    assert easy["series"][0]["x"] == [0, 5, 10, 20, 40]
    assert easy["references"] == [
        ["uniform guess", 6.2383],
        ["unigram counts", 5.2],
        ["entropy floor", 0.69315],
    ]
    low, mean, high = (easy["series"][0][n][-1] for n in ("low", "y", "high"))
    assert low < mean < high


def test_weights_have_a_panel_per_method_and_a_line_per_domain(shown):
    data = read(shown, "weights")
    real = [p for p in data["panels"] if p["scenario"] == "real"]
    assert [p["title"] for p in real] == ["Mix", "PiKE†"]
    assert [s["key"] for s in real[1]["series"]] == ["code", "prose", "headers"]
    # By the end pike's odds are 1 : 1 + 39 / 20 : 0.8.
    assert real[1]["series"][1]["y"][-1] == pytest.approx(2.95 / 4.75, abs=1e-4)


def test_similarities_are_those_of_the_baseline_unless_methods_are_selected(made, tmp_path):
    for selection, methods in (({}, {"Mix"}), ({"methods": ["pike"]}, {"PiKE†"})):
        chosen = {"scenarios": ["real"], **selection}
        place = write_output(
            "figure", "x", made / "pike.duckdb", tmp_path, kind="similarities", selection=chosen
        )
        data = atomic_files.read_json(place.with_suffix(".json"))
        assert {p["title"] for p in data["panels"]} == methods


def test_lengths_have_a_line_per_domain_that_begins_and_ends_at_nothing(shown):
    data = read(shown, "lengths")
    assert [p["scenario"] for p in data["panels"]] == ["real", "languages"]
    code, *_ = data["panels"][0]["series"]
    # 700 documents of 512 tokens or more and 200 of 1,024 or more.
    assert code["x"] == [8, 9, 10, 11]
    assert code["y"] == pytest.approx([0, 7 / 9, 2 / 9, 0], abs=1e-4)


def test_a_method_has_one_colour_in_all_figures_and_no_pair_or_domain_has_it(shown, made, tmp_path):
    legends = [*read(shown, "losses")["legend"], *read(shown, "differences")["legend"]]
    (pike,) = {entry["colour"] for entry in legends if entry["key"] == "pike"}
    # The seventh of the paper's methods behind Mix.
    assert pike == drawing.PALETTE[6]
    place = write_output("figure", "similarities", made / "pike.duckdb", tmp_path)
    others = atomic_files.read_json(place.with_suffix(".json"))["legend"]
    others += read(shown, "weights")["legend"]
    assert {entry["colour"] for entry in others} <= {*drawing.DOMAINS}
    assert not {*drawing.DOMAINS} & {*drawing.PALETTE}


def test_a_figure_of_no_run_is_named_while_it_is_made(made, tmp_path, caplog):
    write_output("figure", "figure1", made / "pike.duckdb", tmp_path)
    assert "figure1 is empty: pipeline/results/sql/figure1.sql gives no row" in caplog.text


@pytest.mark.parametrize(
    ("write", "stage"), [(figures.write_figure, "figure"), (tables.write_table, "table")]
)
def test_an_output_without_its_suffix_is_refused(made, tmp_path, write, stage):
    name = "losses" if stage == "figure" else "costs"
    atomic_files.write_json(tmp_path / "x.json", {"name": name})
    with pytest.raises(
        InputError, match=rf"v1\.2 has no suffix of a {stage}: give --out a file with \."
    ):
        write(tmp_path / "x.json", made / "pike.duckdb", tmp_path / "v1.2")
