"""Real text that a Python installation carries: code, prose and tables, offline and free to use."""

import ast
import inspect
import os
import platform
import sysconfig
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pike_mixing.errors import InputError
from pike_mixing.limits import PositiveInt
from pipeline.data.documents import Document

try:
    from pydoc_data import topics as _pydoc

    _REFERENCE: dict[str, str] = _pydoc.topics
except ImportError:
    # Some slim installations leave it out; they lack the topic `reference`.
    _REFERENCE = {}

Topic = Literal[
    "code", "docstrings", "headers", "packages", "reference", "tables", "tests", "unicode"
]

UNICODE_LINES = 64
"""Characters named in one document of the topic `unicode`."""

_TESTS = frozenset({"test", "tests", "idle_test"})
_NOT_CODE = _TESTS | {
    "idlelib", "lib2to3", "encodings", "pydoc_data", "site-packages", "dist-packages", "__pycache__"
}  # fmt: skip
_LICENCES = {"unicode": "Unicode-3.0", "packages": "various"}


@dataclass(frozen=True)
class Python:
    """One topic of the text that comes with the running Python."""

    topic: Topic
    """code: standard library without docstrings and comments; docstrings: its docstrings, one
    document a module; reference: the language reference of `pydoc`; tests: the test package;
    headers: C headers; tables: the modules of `encodings`; unicode: names of characters, 64 a
    document; packages: code of the installed packages, like `code`."""
    bytes: PositiveInt | None = None
    """Stop at the document that reaches so many UTF-8 bytes; absent: read all."""

    @property
    def licence(self) -> str:
        """Licence of the topic."""
        return _LICENCES.get(self.topic, "PSF-2.0")

    @property
    def entropy_nats_per_character(self) -> None:
        """Unknown."""

    def read(self, skipped: Counter[str]) -> Iterator[Document]:
        """Documents of the topic, sorted by their place in the installation.

        Raises:
            InputError: this Python lacks the topic.
        """
        found = TOPICS[self.topic](skipped)
        first = next(found, None)
        if first is None:
            have = [topic for topic in TOPICS if next(TOPICS[topic](Counter()), None)]
            raise InputError(
                f"topic {self.topic!r}: this Python ({_version()}) lacks it; it has "
                f"{', '.join(have)}: choose one of them, or install a full Python"
            )
        yield first
        yield from found

    def facts(self, documents_sha256: str) -> dict[str, Any]:
        """The revision: implementation, version, and the identity of what was read."""
        return {"revision": f"{_version()} documents {documents_sha256}"}


def code(root: Path, excluded: frozenset[str], skipped: Counter[str]) -> Iterator[Document]:
    """Modules below `root` without docstrings and comments, as `ast.unparse` writes them."""
    for name, tree in _modules(root, excluded, skipped):
        for node in ast.walk(tree):
            if _docstring(node) is not None:
                assert isinstance(node, _Documented)
                node.body = node.body[1:] or [ast.Pass()]
        yield from _unless_blank(Document(name, ast.unparse(tree)), skipped)


def docstrings(root: Path, excluded: frozenset[str], skipped: Counter[str]) -> Iterator[Document]:
    """The docstrings of each module below `root`, in the order of the file, blank lines between."""
    for name, tree in _modules(root, excluded, skipped):
        found = [
            (getattr(node, "lineno", 0), docstring)
            for node in ast.walk(tree)
            if (docstring := _docstring(node)) is not None
        ]
        text = "\n\n".join(inspect.cleandoc(docstring) for _, docstring in sorted(found))
        yield from _unless_blank(Document(name, text), skipped)


def texts(root: Path, suffix: str, skipped: Counter[str]) -> Iterator[Document]:
    """Files below `root` as they are."""
    for file in _files(root, suffix, frozenset({"__pycache__"})):
        text = _decoded(file, skipped)
        if text is not None:
            yield from _unless_blank(Document(file.relative_to(root).as_posix(), text), skipped)


def reference(skipped: Counter[str]) -> Iterator[Document]:
    """Topics of the language reference, as `help()` shows them."""
    for name, text in sorted(_REFERENCE.items()):
        yield from _unless_blank(Document(name, text), skipped)


def character_names(skipped: Counter[str]) -> Iterator[Document]:
    """Code points and their names, those left out whose name only repeats the code point."""
    lines: list[str] = []
    for point in range(0x110000):
        name = unicodedata.name(chr(point), "")
        if name and not name.endswith(f"-{point:04X}") and not name.startswith("HANGUL SYLLABLE"):
            lines.append(f"{point:04X} {name}")
    for first in range(0, len(lines), UNICODE_LINES):
        group = lines[first : first + UNICODE_LINES]
        yield Document(f"U+{group[0].split()[0]}", "\n".join(group))


def _path(name: str) -> Path:
    return Path(sysconfig.get_paths()[name])


TOPICS: dict[Topic, Callable[[Counter[str]], Iterator[Document]]] = {
    "code": lambda skipped: code(_path("stdlib"), _NOT_CODE, skipped),
    "docstrings": lambda skipped: docstrings(_path("stdlib"), _NOT_CODE, skipped),
    "headers": lambda skipped: texts(_path("include"), ".h", skipped),
    "packages": lambda skipped: code(_path("purelib"), _TESTS | {"__pycache__"}, skipped),
    "reference": reference,
    "tables": lambda skipped: texts(_path("stdlib") / "encodings", ".py", skipped),
    "tests": lambda skipped: texts(_path("stdlib") / "test", ".py", skipped),
    "unicode": character_names,
}
"""Topic: how its documents are read, given a counter of what is left out."""

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _version() -> str:
    return f"{platform.python_implementation()} {platform.python_version()}"


def _files(root: Path, suffix: str, excluded: frozenset[str]) -> list[Path]:
    """Files in the order of their relative names; excluded folders are not entered."""
    found: dict[str, Path] = {}
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if name not in excluded]
        matching = (Path(folder, name) for name in names if name.endswith(suffix))
        found.update((file.relative_to(root).as_posix(), file) for file in matching)
    return [found[name] for name in sorted(found)]


def _modules(
    root: Path, excluded: frozenset[str], skipped: Counter[str]
) -> Iterator[tuple[str, ast.Module]]:
    for file in _files(root, ".py", excluded):
        # Written when Python was built: it holds that machine's paths.
        if file.name.startswith("_sysconfigdata"):
            continue
        text = _decoded(file, skipped)
        if text is None:
            continue
        try:
            with warnings.catch_warnings():
                # Invalid escapes in other people's strings are not ours to report.
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except (SyntaxError, ValueError):
            skipped["not Python"] += 1
            continue
        yield file.relative_to(root).as_posix(), tree


def _decoded(file: Path, skipped: Counter[str]) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        skipped["not UTF-8"] += 1
        return None


def _docstring(node: ast.AST) -> str | None:
    return ast.get_docstring(node, clean=False) if isinstance(node, _Documented) else None


def _unless_blank(document: Document, skipped: Counter[str]) -> Iterator[Document]:
    if document.text.strip():
        yield document
    else:
        skipped["blank"] += 1
