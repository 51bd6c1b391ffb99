import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from pipeline.results import drawing
from pipeline.results.figure_panels import Panel, Series


def panel(**more):
    """A small panel with two lines."""
    lines = [Series("mix", -1, [0, 10], [3.0, 1.0]), Series("pike", 0, [0, 10], [3.0, None])]
    facts = {"scenario": "s", "model": "m", "title": "a", "x_label": "step", "y_label": "loss"}
    return Panel(**(facts | {"series": lines} | more))


def luminance(colour):
    """Relative luminance of an sRGB colour (WCAG 2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", [*drawing.PALETTE, *drawing.DOMAINS, drawing.INK])
@pytest.mark.parametrize("ground", ["#ffffff", "#16181d"])
def test_colours_stand_out_on_light_and_dark_ground(colour, ground):
    low, high = sorted((luminance(colour), luminance(ground)))
    assert (high + 0.05) / (low + 0.05) >= 3


def test_styles_differ_beyond_the_number_of_colours():
    styles = [str(drawing.colour_and_dashes(i)) for i in range(-1, 20)]
    assert len(set(styles)) == len(styles)


@pytest.mark.slow
def test_equal_panels_give_equal_bytes(tmp_path):
    for out, colour in (("a.svg", "white"), ("b.svg", "red")):
        # As in a matplotlibrc of the user's.
        with mpl.rc_context({"axes.facecolor": colour}):
            drawing.draw_figure("losses", [panel()], 3, tmp_path / out)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are drawn, which are not saved."""
    figures = []
    monkeypatch.setattr(drawing, "_save_svg_and_png", lambda figure, _: figures.append(figure))
    return figures


def test_a_long_title_ends_within_the_picture(drawn, tmp_path):
    for title in (
        "symbols: three synthetic languages",
        "symbols-two: the easy and the hard language",
    ):
        drawing.draw_figure("figure", [panel(title=title)], 1, tmp_path / "a.svg")
        assert drawn[-1].axes[0].get_tightbbox().x1 <= drawn[-1].bbox.x1


def test_a_band_may_have_gaps(tmp_path):
    """An error over documents is unknown where a domain has a single one."""
    series = [Series("mix", 0, [0, 10], [3.0, 2.0], [None, None], [None, None])]
    drawing.draw_figure("losses", [panel(series=series)], 3, tmp_path / "a.svg")
    assert ">mix</text>" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_a_band_of_one_point_is_a_bar():
    axes = Figure().add_subplot()
    drawing._draw_series(
        axes, Series("mix", 0, [9], [3.0], [2.0], [4.0]), drawing.colour_and_dashes(0)
    )
    (bar,) = axes.collections
    assert bar.get_linewidth()[0] > 0


def test_lines_of_reference_that_are_near_each_other_share_a_label(tmp_path):
    lines = [("uniform", 2.0), ("unigram", 0.55), ("floor", 0.5)]
    near = panel(references=lines, y_limits=(0.0, 3.0))
    drawing.draw_figure("losses", [near], 3, tmp_path / "a.svg")
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert ">floor, unigram</text>" in svg
    assert ">uniform</text>" in svg


@pytest.mark.parametrize(
    ("ends", "place"), [((3.0, 1.0), ("right", "bottom")), ((1.0, 3.0), ("left", "bottom"))]
)
def test_labels_of_reference_stand_where_no_line_and_no_title_is(ends, place):
    axes = Figure().add_subplot()
    lines = [Series("mix", -1, [0, 10], ends)]
    drawing._draw_reference_lines(axes, panel(series=lines, references=[("mix at its end", 2.9)]))
    (label,) = axes.texts
    assert (label.get_ha(), label.get_va()) == place


def test_an_axis_goes_on_above_a_label_over_rising_lines(drawn, tmp_path):
    rising = panel(series=[Series("mix", -1, [0, 10], [1.0, 3.0])], references=[("end", 3.0)])
    drawing.draw_figure("losses", [rising], 1, tmp_path / "a.svg")
    low, high = drawn[0].axes[0].get_ylim()
    # Of a height of 2.2, that of lines from 1 to 3 with their margins, 12 %.
    assert (low, high) == (pytest.approx(0.9), pytest.approx(3.0 + 0.12 * 2.2))


UNDER = [
    Series("mix", -1, [0, 5, 10], [9.0, 2.0, 1.0]),
    Series("pcgrad", 0, [0, 5, 10], [9.0, 2.05, 1.0]),  # within 1 % of 8
    Series("adatask", 1, [0, 5, 10], [9.0, 2.2, 1.0]),
    Series("ado", 2, [10], [1.0]),
    Series("famo", 3, [10], [1.0]),
]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, [("mix", "pcgrad")]),
        # Two hundredths of a log axis that reaches over less than one decade.
        ({"scale": "log"}, []),
        ({"y_limits": (0.0, 40.0)}, [("mix", "pcgrad", "adatask")]),
        ({"series": UNDER[3:]}, []),
        ({"series": [Series("a", 0, [0, 1], [1.0, None]), Series("b", 1, [0, 2], [1.0, 2.0])]}, []),
    ],
)
def test_lines_that_lie_on_each_other_are_found_on_the_axis_that_is_drawn(change, found):
    assert drawing.overlapping_line_keys(panel(**({"series": UNDER} | change))) == found


def test_no_line_and_no_point_is_hidden(drawn, tmp_path):
    drawing.draw_figure("x", [panel(series=UNDER)], 1, tmp_path / "a.svg", labels={"mix": "Mix"})
    (figure,) = drawn
    lines = dict(zip([s.key for s in UNDER], figure.axes[0].lines, strict=True))
    widths = {key: line.get_linewidth() for key, line in lines.items()}
    assert widths["mix"] > 2 * widths["pcgrad"] == 2 * widths["adatask"]
    # Methods without a curve stand side by side.
    ends = [lines[key].get_xdata()[0] for key in ("mix", "ado", "famo")]
    assert ends[0] < 10 < ends[1] < ends[2]
    assert len({line.get_marker() for line in lines.values()}) == len(UNDER)
    (note,) = (" ".join(text.get_text().split()) for text in figure.texts)
    assert note == (
        "Wide lines lie under others: Mix under pcgrad. Beside the lines' end: methods evaluated "
        "there alone."
    )
    entries = {e.get_label(): e.get_linestyle() for e in figure.legends[0].legend_handles}
    assert (entries["ado"], entries["Mix"]) == ("None", "-")


def test_each_scenario_begins_a_row_and_is_named(drawn, tmp_path):
    panels = [panel(), panel(scenario="r"), panel(scenario="r")]
    drawing.draw_figure("losses", panels, 2, tmp_path / "a.svg")
    places = [axes.get_position() for axes in drawn[0].axes]
    assert places[0].y0 > places[1].y0 == places[2].y0
    assert places[0].x0 == places[1].x0 < places[2].x0
    assert [axes.get_title("left") for axes in drawn[0].axes] == ["s: a", "r: a", "r: a"]


@pytest.mark.parametrize(
    ("values", "scale"), [([1.0, 100.0], "log"), ([4.2, 4.7], "linear"), ([None, -1.0], "linear")]
)
def test_a_log_scale_is_used_where_values_span_a_decade(drawn, tmp_path, values, scale):
    lines = [Series("a", 0, [0, 1], values)]
    drawing.draw_figure("x", [panel(series=lines, scale="log")], 1, tmp_path / "a.svg")
    assert drawn[0].axes[0].get_yscale() == scale
