"""A page in a real browser: what a script answers inside it, and what axe says of it."""

import html
import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path

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
AROUND = """<!doctype html><title></title>
<iframe src="%s" style="width:%dpx;height:1000px"></iframe>
<script>addEventListener("message", (event) => { document.title = event.data; });</script>"""
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--enable-logging=stderr", "--window-size=1600,1200", "--virtual-time-budget=30000",
    "--dump-dom",
)  # fmt: skip
AXE_SCRIPT = '<script src="axe.min.js"></script>'
DARK = "--blink-settings=preferredColorScheme=0"


def answer(folder, text, script, *, name="page", width=1440, before="", options=()):
    """What a script answers at the end of a page, without an error or a message in the console.

    Args:
        folder: For the page's file, a frame of the width around it, and the browser's profile.
        text: The page's HTML.
        script: Body of an async function.
        name: Of the page's file.
        width: Of the frame, pixels.
        before: HTML ahead of the script.
        options: Further ones of the browser.
    """
    if BROWSER is None:
        pytest.skip("neither chromium nor google-chrome is installed")
    ending = before + INSIDE % script + "</body>"
    text = text.replace("<head>", "<head>" + WATCH).replace("</body>", ending)
    (folder / f"{name}.html").write_text(text, encoding="utf-8")
    around = folder / "around.html"
    around.write_text(AROUND % (f"{name}.html", width), encoding="utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [BROWSER, *OPTIONS, *options, profile, around.as_uri()],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    found = json.loads(html.unescape(re.search(r"<title>(.*?)</title>", done.stdout)[1]))
    assert found["errors"] == []
    return found["answer"]


def barriers(folder, text, **page):
    """What axe finds wrong with a page at a width; whether it was dark, and did not scroll."""
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
    return answer(folder, text, script, before=AXE_SCRIPT, **page)
