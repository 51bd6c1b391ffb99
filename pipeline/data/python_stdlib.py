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
from pipeline.data.source_interface import Document

try:
    from pydoc_data import topics as _pydoc

    _REFERENCE: dict[str, str] = _pydoc.topics
except ImportError:
    # Some slim installations leave it out; they lack the topic `reference`.
    _REFERENCE = {}

Topic = Literal["code", "docstrings", "reference", "tables", "unicode"]

Text = tuple[str, str]
"""A document's name and text."""

UNICODE_LINES = 64
"""Characters named in one document of the topic `unicode`."""

_NOT_CODE = frozenset(
    {"test", "tests", "idle_test", "idlelib", "lib2to3", "encodings", "pydoc_data"}
    | {"site-packages", "dist-packages", "__pycache__"}
)


@dataclass(frozen=True)
class Python:
    """One topic of the text that comes with the running Python."""

    topic: Topic
    """code: standard library without docstrings and comments; docstrings: its docstrings, one
    document a module; reference: the language reference of `pydoc`; tables: the modules of
    `encodings`; unicode: names of characters, 64 a document."""
    bytes: PositiveInt | None = None
    """Stop at the document that reaches so many UTF-8 bytes; absent: read all."""
    kind: Literal["python"] = "python"

    @property
    def licence(self) -> str:
        """Licence of the topic."""
        return "Unicode-3.0" if self.topic == "unicode" else "PSF-2.0"

    @property
    def entropy_nats_per_character(self) -> None:
        """Unknown."""

    def read(self, skipped: Counter[str], files: list[dict[str, Any]]) -> Iterator[Document]:
        """Documents of the topic, sorted by their place in the installation.

        Raises:
            InputError: this Python lacks the topic.
        """
        result = False
        for name, text in TOPICS[self.topic](skipped):
            result = True
            if text.strip():
                yield Document(name, text)
            else:
                skipped["blank"] += 1
        if not result:
            raise InputError(
                f"topic {self.topic!r}: this Python ({_version()}) lacks it: choose another, or "
                "install a full Python"
            )

    def facts(self, documents_sha256: str) -> dict[str, Any]:
        """The revision: implementation, version, and the identity of what was read."""
        return {"revision": f"{_version()} documents {documents_sha256}"}


def code(root: Path, excluded: frozenset[str], skipped: Counter[str]) -> Iterator[Text]:
    """Modules below `root` without docstrings and comments, as `ast.unparse` writes them.

    Args:
        root: The folder.
        excluded: Names of folders that are not entered.
        skipped: Counts files left out, by reason.
    """
    for name, tree in _modules(root, excluded, skipped):
        for node in ast.walk(tree):
            if _docstring(node) is not None:
                assert isinstance(node, _Documented)
                node.body = node.body[1:] or [ast.Pass()]
        yield name, ast.unparse(tree)


def docstrings(root: Path, excluded: frozenset[str], skipped: Counter[str]) -> Iterator[Text]:
    """The docstrings of each module below `root`, in the order of the file, blank lines between.

    Args:
        root: The folder.
        excluded: Names of folders that are not entered.
        skipped: Counts files left out, by reason.
    """
    for name, tree in _modules(root, excluded, skipped):
        result = [
            (getattr(node, "lineno", 0), docstring)
            for node in ast.walk(tree)
            if (docstring := _docstring(node)) is not None
        ]
        yield name, "\n\n".join(inspect.cleandoc(docstring) for _, docstring in sorted(result))


def texts(root: Path, suffix: str, skipped: Counter[str]) -> Iterator[Text]:
    """Files below `root` as they are.

    Args:
        root: The folder.
        suffix: How the files' names end.
        skipped: Counts files left out, by reason.
    """
    for file in _files(root, suffix, frozenset({"__pycache__"})):
        text = _decoded(file, skipped)
        if text is not None:
            yield file.relative_to(root).as_posix(), text


def character_names() -> Iterator[Text]:
    """Code points and their names, those left out whose name only repeats the code point."""
    lines: list[str] = []
    for point in range(0x110000):
        name = unicodedata.name(chr(point), "")
        if name and not name.endswith(f"-{point:04X}") and not name.startswith("HANGUL SYLLABLE"):
            lines.append(f"{point:04X} {name}")
    for first in range(0, len(lines), UNICODE_LINES):
        group = lines[first : first + UNICODE_LINES]
        yield f"U+{group[0].split()[0]}", "\n".join(group)


_STDLIB = Path(sysconfig.get_paths()["stdlib"])

TOPICS: dict[Topic, Callable[[Counter[str]], Iterator[Text]]] = {
    "code": lambda skipped: code(_STDLIB, _NOT_CODE, skipped),
    "docstrings": lambda skipped: docstrings(_STDLIB, _NOT_CODE, skipped),
    # As `help()` shows them.
    "reference": lambda _: iter(sorted(_REFERENCE.items())),
    "tables": lambda skipped: texts(_STDLIB / "encodings", ".py", skipped),
    "unicode": lambda _: character_names(),
}
"""Topic: how its documents are read, given a counter of what is left out."""

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _version() -> str:
    return f"{platform.python_implementation()} {platform.python_version()}"


def _files(root: Path, suffix: str, excluded: frozenset[str]) -> list[Path]:
    """Files in the order of their relative names; excluded folders are not entered."""
    result: dict[str, Path] = {}
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if name not in excluded]
        matching = (Path(folder, name) for name in names if name.endswith(suffix))
        result.update((file.relative_to(root).as_posix(), file) for file in matching)
    return [result[name] for name in sorted(result)]


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
