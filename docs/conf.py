"""Sphinx's settings for the documentation as a site: `make site`. Its root is the repository's."""

import re
import shutil
from pathlib import Path

from pygments.lexers.python import PythonLexer

from pike_mixing import __version__

project = "PiKE, reproduced"
release = __version__
extensions = ["myst_parser", "sphinx_external_toc"]
external_toc_path = "docs/_toc.yml"
include_patterns = ["*.md", "config/README.md", "docs/*.md", "results/README.md"]
html_theme = "furo"
html_title = f"{project} {release}"
myst_heading_anchors = 3
toc_object_entries = False
html_show_copyright = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sourcelink = False
# What a screen reader or a keyboard needs and the theme leaves out: the level of a heading,
# names of the two side bars, code and tables that scroll by keys.
SPOKEN = {
    'role="heading"': 'role="heading" aria-level="2"',
    '<aside class="sidebar-drawer"': '<aside aria-label="All pages" class="sidebar-drawer"',
    '<aside class="toc-drawer': '<aside aria-label="This page" class="toc-drawer',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
}
# Links to folders and files of code lead nowhere in the site: they are for readers of the clone.
suppress_warnings = ["myst.xref_missing"]


def setup(app):
    """Badges need a network, the README's picture is copied, and Snakefiles are nearly Python."""
    app.add_lexer("snakemake", PythonLexer)
    app.connect("source-read", _fill)
    app.connect("build-finished", _copy_pictures)
    app.connect("build-finished", _add_what_is_spoken)


def _fill(app, name, source):
    if name == app.config.root_doc or name == "README":
        # Badges lie elsewhere: without a network nothing would be there.
        source[0] = re.sub(r"^\[!\[.*\n", "", source[0], flags=re.MULTILINE)


def _copy_pictures(app, failed):
    """The README's picture is HTML of its own, whose files Sphinx does not look for."""
    pictures = Path("docs/results")
    (Path(app.outdir) / pictures).mkdir(parents=True, exist_ok=True)
    for path in (Path(app.srcdir) / pictures).glob("*.svg"):
        shutil.copy(path, Path(app.outdir) / pictures)


def _add_what_is_spoken(app, failed):
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for theme, ours in SPOKEN.items():
            text = text.replace(theme, ours)
        page.write_text(text, encoding="utf-8")
