"""The tree that is tested, commands in it, and git by an author of the tests' own."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = [
    ROOT / "config.yaml",
    ROOT / "config/config.yaml",
    *sorted(ROOT.glob("workflow/configs/*.yaml")),
    *sorted(ROOT.glob(".test/*.yaml")),
]
"""Every configuration that is shipped whole."""


def run(*command, cwd=ROOT, **options):
    """A finished command, and what it has printed as text."""
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, **options)


def git(folder, *words, **options):
    """The answer of a git command in a folder."""
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    return run("git", *author, *words, cwd=folder, check=True, **options).stdout
