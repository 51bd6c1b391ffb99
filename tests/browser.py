"""A page in a real browser: what a script answers inside it, and what axe says of it."""

import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import ClassVar, NamedTuple

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


class Keyboard:
    """A browser with a page, of which a test has the keys alone: commands by Chromium's pipe."""

    CODES: ClassVar = {"Tab": 9, "Enter": 13, " ": 32, "ArrowRight": 39}
    TEXTS: ClassVar = {"Enter": "\r", " ": " "}

    def __init__(self, folder, page):
        """Opens the page, a file."""
        if BROWSER is None:
            pytest.skip("neither chromium nor google-chrome is installed")
        reads, self.written = os.pipe()
        self.read, writes = os.pipe()

        def connect():
            # Both are moved away first: one may be where the other has to be.
            os.dup2(reads, 103), os.dup2(writes, 104)
            os.dup2(103, 3), os.dup2(104, 4)

        words = [BROWSER, *OPTIONS[:4], "--remote-debugging-pipe"]
        words.append(f"--user-data-dir={folder / 'profile'}")
        self.process = subprocess.Popen(
            words, preexec_fn=connect, close_fds=False, stderr=subprocess.DEVNULL
        )
        self.rest, self.number, self.session = b"", 0, {}
        target = self.call("Target.createTarget", url=page.as_uri())["targetId"]
        told = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = {"sessionId": told["sessionId"]}
        while self.value("document.readyState") != "complete":
            time.sleep(0.02)

    def call(self, method, **parameters):
        """What the browser answers to a command."""
        self.number += 1
        said = {"id": self.number, "method": method, "params": parameters} | self.session
        os.write(self.written, json.dumps(said).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                self.rest += os.read(self.read, 65536)
            told, self.rest = self.rest.split(b"\0", 1)
            if (answer := json.loads(told)).get("id") == self.number:
                return answer["result"]

    def value(self, expression):
        """A value of the page."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return told["result"].get("value")

    def press(self, key, times=1):
        """Presses and releases a key."""
        named = {"key": key, "code": key.replace(" ", "Space")}
        named["windowsVirtualKeyCode"] = self.CODES[key]
        text = {"text": self.TEXTS[key]} if key in self.TEXTS else {}
        for _ in range(times):
            self.call("Input.dispatchKeyEvent", type="keyDown", **named, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def go_to(self, part):
        """Presses Tab until the part with this id has the focus."""
        for _ in range(60):
            if self.value("document.activeElement.id") == part:
                return
            self.press("Tab")
        raise AssertionError(f"no Tab reaches {part}")
