"""Panels of an SVG file as pieces of a page: recoloured by it, sized by it, unique in it."""

import copy
import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from pipeline.results.drawing import INK

SVG = "http://www.w3.org/2000/svg"
HREF = "{http://www.w3.org/1999/xlink}href"

PLACES = {"d", "x", "y", "width", "height", "transform", "viewBox"}
"""Attributes that hold numbers of points."""

ElementTree.register_namespace("", SVG)


def panels(svg: str, data: Mapping[str, Any]) -> dict[str, str]:
    """Cuts the SVG of `drawing.draw` into one `<svg>` per panel, by the id that its data has.

    Text and axes take the page's text colour and font. Groups of series get `data-key`, their
    entry in the legend; ids other than those of panels and series are made unique or dropped.
    """
    root = ElementTree.fromstring(svg)
    by_id = {element.get("id"): element for element in root.iter() if element.get("id")}
    cut = {}
    for panel in data["panels"]:
        group = copy.deepcopy(by_id[panel["id"]])
        _own(group, panel, by_id)
        picture = ElementTree.Element(
            f"{{{SVG}}}svg",
            {
                "viewBox": " ".join(f"{v:.2f}" for v in panel["box"]),
                "data-panel": panel["id"],
                "role": "img",
                "tabindex": "0",
                "aria-label": _describe(panel),
            },
        )
        picture.append(group)
        cut[panel["id"]] = _small(picture)
    return cut


def _describe(panel: Mapping[str, Any]) -> str:
    """What the panel shows, for those who do not see it: each line's last value."""
    ends = (
        f"{line['key']} {line['y'][-1]:.4g}"
        for line in panel["series"]
        if line["y"][-1] is not None
    )
    at = f"; at the end: {', '.join(ends)}"
    return f"{panel['title']}: {panel['y_label']} by {panel['x_label']}{at}"


def _small(picture: ElementTree.Element) -> str:
    """The picture as text, a third as long: without what a page says once for all panels.

    A page gives text its font, size and colour; a tenth of a point is less than eyes can see.
    """
    for parent in picture.iter():
        parent.text = parent.text if parent.tag.endswith("}text") else None
        children = [inner for child in parent for inner in _unwrap(child)]
        parent[:] = children
        for child in children:
            child.tail = None
        for name in PLACES & parent.attrib.keys():
            parent.set(name, re.sub(r"-?\d+\.\d{2,}", _tenth, parent.attrib[name]))
    text = ElementTree.tostring(picture, encoding="unicode").replace(INK, "currentColor")
    # The path that a tick uses has its line already; the frame behind the axes is empty.
    text = re.sub(r'(<use [^>]*?) style="fill: c\w+; stroke: c\w+; stroke-width: 0.8"', r"\1", text)
    text = re.sub(r'<path d="[^"]*" style="fill: none" />', "", text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"| stroke-linecap: butt;?', "", text)
    text = re.sub(r"(?:font-family|stroke-linejoin): [^;\"]*;? ?", "", text)
    text = re.sub(r'font-size: 8.5px; |; fill: currentColor(?=" x=)', "", text)
    return re.sub(r"\s+", " ", text).replace(' "', '"').replace("> <", "><").replace(" />", "/>")


def _tenth(match: re.Match[str]) -> str:
    return f"{float(match[0]):.1f}".removesuffix(".0")


def _unwrap(element: ElementTree.Element) -> list[ElementTree.Element]:
    """The element, or what is in it where it is a group that says nothing."""
    if element.tag != f"{{{SVG}}}g" or element.attrib:
        return [element]
    return [inner for child in element for inner in _unwrap(child)]


def _own(
    group: ElementTree.Element,
    panel: Mapping[str, Any],
    by_id: Mapping[str | None, ElementTree.Element],
) -> None:
    """Gives the panel its own copies of what it refers to, under ids that no other panel has."""
    keys = {}
    for series in panel["series"]:
        keys[series["id"]] = keys[f"{series['id']}--range"] = series["key"]
    inside = {element.get("id") for element in group.iter()} - {None}
    needed = _references(group)
    defs = ElementTree.Element(f"{{{SVG}}}defs")
    defs.extend(copy.deepcopy(by_id[name]) for name in sorted(needed - inside))
    group.insert(0, defs)
    for element in group.iter():
        name = element.get("id")
        if name in keys:
            element.set("data-key", keys[name])
        elif name in needed:
            element.set("id", f"{panel['id']}--{name}")
        elif name is not None and name != panel["id"]:
            del element.attrib["id"]
        if HREF in element.attrib:
            element.set("href", f"#{panel['id']}--{element.attrib.pop(HREF)[1:]}")
        clip = element.get("clip-path")
        if clip is not None:
            element.set("clip-path", clip.replace("(#", f"(#{panel['id']}--"))


def _references(group: ElementTree.Element) -> set[str]:
    """Ids that elements of the group point to."""
    result = set()
    for element in group.iter():
        if HREF in element.attrib:
            result.add(element.attrib[HREF][1:])
        result.update(re.findall(r"url\(#([^)]+)\)", element.get("clip-path", "")))
    return result
