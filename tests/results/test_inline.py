import re

from pipeline.results import drawing, inline
from pipeline.results.display import Panel, Series


def cut(tmp_path):
    """Two panels of one figure, cut out."""
    lines = [Series("mix", -1, [0, 10], [3.0, 1.0], [2.9, 0.9], [3.1, 1.1])]
    panels = [
        Panel(f"s--m--{d}", "s", "m", d, "step", "loss", lines, [("floor", 0.5)]) for d in "ab"
    ]
    data = drawing.draw("losses", panels, 2, tmp_path / "x.svg")
    return inline.panels((tmp_path / "x.svg").read_text(encoding="utf-8"), data)


def test_panels_are_cut_by_id_and_fit_their_box(tmp_path):
    pieces = cut(tmp_path)
    assert list(pieces) == ["losses--s--m--a", "losses--s--m--b"]
    first = pieces["losses--s--m--a"]
    assert first.startswith("<svg ")
    assert 'aria-label="a: loss by step; at the end: mix 1"' in first
    assert 'id="losses--s--m--b"' not in first
    _, _, width, height = map(float, re.search(r'viewBox="([^"]+)"', first)[1].split())
    assert 0 < width < 300
    assert 0 < height < 200


def test_ids_are_unique_and_references_lead_somewhere(tmp_path):
    page = "".join(cut(tmp_path).values())
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    wanted = re.findall(r'href="#([^"]+)"', page) + re.findall(r"url\(#([^)]+)\)", page)
    assert wanted
    assert set(wanted) <= set(ids)


def test_lines_and_bands_carry_their_key(tmp_path):
    piece = cut(tmp_path)["losses--s--m--a"]
    assert 'id="losses--s--m--a--mix" data-key="mix"' in piece
    assert 'id="losses--s--m--a--mix--range" data-key="mix"' in piece


def test_text_and_axes_take_the_pages_colour_and_font(tmp_path):
    page = "".join(cut(tmp_path).values())
    assert drawing.INK not in page
    assert "currentColor" in page
    assert "font-family" not in page


def test_places_are_rounded_and_what_is_read_is_not(tmp_path):
    line = [Series("mix", -1, [0, 10], [0.0125, 0.0175])]
    panel = Panel("s--m--a", "s", "m", "a 0.125", "step", "loss", line, [])
    data = drawing.draw("losses", [panel], 1, tmp_path / "x.svg")
    drawn = (tmp_path / "x.svg").read_text(encoding="utf-8")
    piece = inline.panels(drawn, data)["losses--s--m--a"]
    assert ">a 0.125</text>" in piece
    ticks, of_drawn = (set(re.findall(r">(0\.\d+)</text>", text)) for text in (piece, drawn))
    assert ticks == of_drawn
    assert not re.search(r' (?:x|y|d)="[^"]*\d\.\d\d', piece)
    assert len(piece) < 0.7 * len(drawn)
