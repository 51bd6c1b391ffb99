"""Panels of an SVG file as pieces of a page: recoloured by it, sized by it, unique in it."""

import copy
import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from pipeline.results.drawing import INK

SVG = "http://www.w3.org/2000/svg"
HREF = "{http://www.w3.org/1999/xlink}href"

ElementTree.register_namespace("", SVG)


def panels(svg: str, data: Mapping[str, Any]) -> dict[str, str]:
    """Cuts a figure's SVG into one `<svg>` per panel, by the panel's id.

    Text and axes take the page's text colour and font. Groups of series get `data-key`, their
    entry in the legend; ids other than those of panels and series are made unique or dropped.

    Args:
        svg: A file written by `drawing.draw`.
        data: What `drawing.draw` returned for it.
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
                "aria-label": f"{panel['title']}: {panel['y_label']} by {panel['x_label']}",
            },
        )
        picture.append(group)
        text = ElementTree.tostring(picture, encoding="unicode")
        text = re.sub(r"font-family: [^;\"]*;? ?", "", text.replace(INK, "currentColor"))
        cut[panel["id"]] = text
    return cut


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
    found = set()
    for element in group.iter():
        if HREF in element.attrib:
            found.add(element.attrib[HREF][1:])
        found.update(re.findall(r"url\(#([^)]+)\)", element.get("clip-path", "")))
    return found
