"""A page in a real browser: what a script answers inside it, and what axe says of it."""

import html
import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
AXE = importlib.util.find_spec("axe_core_python")
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]

# What is run in the page ends with an answer; a page around it has the width of a telephone.
INSIDE = """
<script>
addEventListener("load", async () => {
  const answer = await (async () => { %s })();
  parent.postMessage(JSON.stringify({ errors: failures, answer }), "*");
});
</script>
"""
WATCH = "<script>window.failures = []; onerror = (m) => { failures.push(m); };</script>"
AROUND = """<!doctype html><title></title><body>
<script>
const visits = %s, answers = [];
const next = () => {
  document.querySelector("iframe")?.remove();
  if (answers.length === visits.length) { document.title = JSON.stringify(answers); return; }
  const [page, width] = visits[answers.length], frame = document.createElement("iframe");
  [frame.src, frame.style.width, frame.style.height] = [page, `${width}px`, "1000px"];
  document.body.append(frame);
};
addEventListener("message", (event) => { answers.push(JSON.parse(event.data)); next(); });
addEventListener("load", next);
</script>"""
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--enable-logging=stderr", "--window-size=1600,1200", "--virtual-time-budget=30000",
    "--dump-dom",
)  # fmt: skip
AXE_SCRIPT = '<script src="axe.min.js"></script>'
DARK = "--blink-settings=preferredColorScheme=0"


class Visit(NamedTuple):
    """A look at a page: its HTML, and the body of an async function that answers at its end."""

    text: str
    script: str
    width: int = 1440
    """Of the frame, pixels."""
    before: str = ""
    """HTML ahead of the script."""


def answers(folder, *visits, options=()):
    """What each visit's script answers, without an error or a message in the console.

    One browser with further options opens the pages in turn, and keeps them and its profile in the
    folder.
    """
    if BROWSER is None:
        pytest.skip("neither chromium nor google-chrome is installed")
    pages = []
    for number, visit in enumerate(visits):
        ending = visit.before + INSIDE % visit.script + "</body>"
        text = visit.text.replace("<head>", "<head>" + WATCH).replace("</body>", ending)
        (folder / f"{number}.html").write_text(text, encoding="utf-8")
        pages.append((f"{number}.html", visit.width))
    around = folder / "around.html"
    around.write_text(AROUND % json.dumps(pages), encoding="utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [BROWSER, *OPTIONS, *options, profile, around.as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    found = json.loads(html.unescape(re.search(r"<title>(.*?)</title>", done.stdout)[1]))
    assert [one["errors"] for one in found] == [[]] * len(visits)
    return [one["answer"] for one in found]


def barriers(folder, text, width=1440):
    """A visit: what axe finds wrong with a page; whether it was dark, and did not scroll."""
    if AXE is None:
        pytest.skip("the extra test installs axe-core-python")
    shutil.copy(Path(AXE.origin).with_name("axe.min.js"), folder)
    script = (
        f"const only = {json.dumps(WCAG)};"
        + """
      const wide = document.documentElement.scrollWidth;
      const dark = matchMedia("(prefers-color-scheme: dark)").matches;
      for (const part of document.querySelectorAll("details")) part.open = true;
      const found = await axe.run(document, { runOnly: only, resultTypes: ["violations"] });
      const told = found.violations.map((one) => one.id + ": " + one.nodes[0].html);
      return { wide, dark, told, passed: found.passes.length };
    """
    )
    return Visit(text, script, width, AXE_SCRIPT)
