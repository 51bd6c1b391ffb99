"""Sphinx's settings for the documentation as a site: `make site`. Its root is the repository's."""

import re

from pike_mixing import RULES, __version__

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
autodoc_mock_imports = ["lightning", "transformers"]
# Links to folders and files of code lead nowhere in the site: they are for readers of the clone.
suppress_warnings = ["myst.xref_missing"]


def setup(app):
    """Docstrings are plain text with code in backticks; the table of rules is in the library."""
    app.connect("autodoc-process-docstring", _marked_up, priority=400)
    app.connect("source-read", _list_rules)


def _marked_up(app, what, name, obj, options, lines):
    found = []
    for line in lines:
        # An indented part after an empty line is code or a formula; sections have no empty line.
        begins = line.startswith("    ") and found and not found[-1]
        if begins and not found[-2].startswith(" "):
            found += ["::", ""]
        found.append(re.sub("(?<!`)`([^`]+)`(?!`)", r"``\1``", line.replace("|", "\\|")))
    lines[:] = found


def _list_rules(app, name, source):
    if name == "docs/api":
        modules = [place.partition(":")[0] for place in RULES.values()]
        lines = [f".. automodule:: {module}\n   :members:\n" for module in modules]
        source[0] = source[0].replace("\nRULES\n", "\n" + "\n".join(lines) + "\n")
