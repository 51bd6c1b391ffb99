"""Sphinx's settings for the documentation as a site: `make site`. Its root is the repository's."""

import importlib.metadata

project = "PiKE, reproduced"
release = importlib.metadata.version("pike")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_external_toc"]
external_toc_path = "docs/_toc.yml"
include_patterns = ["*.md", "docs/*.md", "results/README.md"]
html_theme = "furo"
html_title = f"{project} {release}"
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
# Links to folders and files of code lead nowhere in the site: they are for readers of the clone.
suppress_warnings = ["myst.xref_missing"]


def setup(app):
    """Norms such as |g| are no markup of Sphinx."""
    app.connect("autodoc-process-docstring", _escape_bars)


def _escape_bars(app, what, name, obj, options, lines):
    lines[:] = [line.replace("|", "\\|") for line in lines]
