"""Sphinx's settings for the documentation as a site: `make site`. Its root is the repository's."""

import re
import shutil
import sys
from pathlib import Path

from pike_mixing import __version__

sys.path.insert(0, str(Path(__file__).parent))
import reference

project = "PiKE, reproduced"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_external_toc"]
external_toc_path = "docs/_toc.yml"
include_patterns = ["*.md", "docs/*.md", "results/README.md"]
html_theme = "furo"
html_title = f"{project} {release}"
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
toc_object_entries = False
html_show_copyright = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]
autodoc_mock_imports = ["grain", "lightning", "torchtitan", "transformers"]
# Links to folders and files of code lead nowhere in the site: they are for readers of the clone.
suppress_warnings = ["myst.xref_missing"]


def setup(app):
    """Docstrings are plain text with code in backticks; some pages are made from the code."""
    app.connect("autodoc-process-docstring", _marked_up, priority=400)
    app.connect("autodoc-process-docstring", _as_it_was, priority=600)
    app.connect("source-read", _fill)
    app.connect("build-finished", _copy_pictures)


def _marked_up(app, what, name, obj, options, lines):
    found = []
    for line in lines:
        # An indented part after an empty line is code or a formula; sections have no empty line.
        begins = line.startswith("    ") and found and not found[-1]
        if begins and not found[-2].startswith(" "):
            found += ["::", ""]
        found.append(re.sub("(?<!`)`([^`]+)`(?!`)", r"``\1``", line.replace("|", "\\|")))
    lines[:] = found
    app.attributes = {name: found} if what in ("attribute", "data") else {}


def _as_it_was(app, what, name, obj, options, lines):
    """Napoleon takes what stands before a colon for an attribute's type."""
    lines[:] = app.attributes.get(name, lines)


def _fill(app, name, source):
    if name == app.config.root_doc or name == "README":
        # Badges lie elsewhere: without a network nothing would be there.
        source[0] = re.sub(r"^\[!\[.*\n", "", source[0], flags=re.MULTILINE)
    if made := reference.PAGES.get(name):
        word, text = made
        assert source[0].count(f"\n{word}\n") == 1, f"{name}.md has no line {word}"
        source[0] = source[0].replace(f"\n{word}\n", f"\n{text()}\n")


def _copy_pictures(app, failed):
    """The README's picture is HTML of its own, whose files Sphinx does not look for."""
    pictures = Path("docs/results")
    (Path(app.outdir) / pictures).mkdir(parents=True, exist_ok=True)
    for path in (Path(app.srcdir) / pictures).glob("*.svg"):
        shutil.copy(path, Path(app.outdir) / pictures)
