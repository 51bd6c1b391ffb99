"""Real text that a Python environment carries: code, prose and tables, offline and free to use."""

import ast
import inspect
import io
import os
import platform
import sysconfig
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pike_mixing.errors import InputError
from pike_mixing.setting_limits import PositiveInt
from pipeline.data import document_cutting
from pipeline.data.file_settings import Cut
from pipeline.data.source_interface import Document, Source
from pipeline.settings import Sha256

SUFFIXES = {
    "code": (".py",),
    "docstrings": (".py",),
    "doctests": (".py",),
    "headers": (".h", ".hh", ".hpp", ".cuh", ".c", ".cc", ".cpp"),
    "prose": (".rst", ".md", ".txt"),
    "stubs": (".pyi",),
}
"""Topic: the ends of its files' names; licences without one are prose."""
_LICENCES = ("licence", "license", "copying", "notice", "authors")
_LISTS = ("top_level.txt", "entry_points.txt", "sources.txt", "requires.txt")
"""Lists of names that installers write."""


def package_files(packages: Mapping[str, str], topic: str) -> list[tuple[str, Path]]:
    """The files of a topic in some packages, each with its name, in the order of the names."""
    _refuse_other_versions(packages)
    result = {}
    for name in packages:
        for entry in metadata.files(name) or ():
            place = PurePosixPath(entry.as_posix())
            if ".." in place.parts or "__pycache__" in place.parts:
                continue
            licence = topic == "prose" and place.name.lower().startswith(_LICENCES)
            listed = place.name.lower() in _LISTS
            path = Path(str(entry.locate()))
            if (place.suffix in SUFFIXES[topic] or licence) and not listed and path.is_file():
                result[place.as_posix()] = path
    return sorted(result.items())


def package_licences(packages: Mapping[str, str]) -> str:
    """What the packages say of their licences, for the record."""
    _refuse_other_versions(packages)
    result = []
    for name in packages:
        about = metadata.metadata(name)
        fields = [about[field] for field in ("License-Expression", "License") if field in about]
        lines = [line for text in fields for line in text.splitlines() if line.strip()]
        result.append(f"{name}: {lines[0] if lines else 'unknown'}")
    return "; ".join(result)


def _refuse_other_versions(packages: Mapping[str, str]) -> None:
    wrong = []
    for name, version in packages.items():
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            installed = "nothing"
        if installed != version:
            wrong.append(f"packages: {name} {installed} is installed, not {version}")
    if wrong:
        advice = "set up the environment that the source was written for, or name what is installed"
        raise InputError(f"{'; '.join(wrong)}: {advice}")


try:
    from pydoc_data import topics as _pydoc

    _REFERENCE: dict[str, str] = _pydoc.topics
except ImportError:
    # Some slim installations leave it out; they lack the topic `reference`.
    _REFERENCE = {}

Topic = Literal[
    "code",
    "docstrings",
    "doctests",
    "headers",
    "prose",
    "reference",
    "stubs",
    "tables",
    "unicode",
]

Text = tuple[str, str]
"""A document's name and text."""
Files = Iterable[tuple[str, Path]]
"""Files, each with its name."""

UNICODE_LINES = 64
"""Characters named in one document of the topic `unicode`."""

_NOT_CODE = frozenset(
    {"test", "tests", "idle_test", "idlelib", "lib2to3", "encodings", "pydoc_data"}
    | {"site-packages", "dist-packages", "__pycache__"}
)
_STDLIB = Path(sysconfig.get_paths()["stdlib"])
STDLIB_TOPICS = ("code", "docstrings", "reference", "tables", "unicode")


@dataclass(frozen=True)
class PythonSource(Source):
    """One topic of the text that comes with the running Python, or with installed packages."""

    topic: Topic
    """code: standard library without docstrings and comments; docstrings: its docstrings, one
    document a module; reference: the language reference of `pydoc`; tables: the modules of
    `encodings`; unicode: names of characters, 64 a document; of `packages`: code, docstrings,
    doctests (the examples within docstrings: what a person types, and what Python answers), headers
    of C and C++ (and what sources there are), prose (.rst, .md, .txt, licences), stubs (.pyi)."""
    packages: dict[str, str] | None = None
    """Distributions whose files are read in place of the standard library's, each with its version:
    {numpy: 2.4.1}. Another version is refused."""
    documents: Cut = "file"
    """What a document of a file is, as of the kind local: a file, or "8000 characters" of it."""
    max_characters: PositiveInt | None = None
    """Files of more characters are left out, so that no document outweighs the others; absent:
    none."""
    documents_sha256: Sha256 | None = None
    """Identity of all documents (`documents_sha256` of their manifest): where the files of the same
    versions differ, as on another platform, the source is refused; absent: they are recorded."""
    bytes: PositiveInt | None = None
    """Stop at the document that reaches so many UTF-8 bytes; absent: read all."""
    kind: Literal["python"] = "python"

    def problems(self) -> list[str]:
        """Topics without files."""
        result = []
        if self.packages is None and self.topic not in STDLIB_TOPICS:
            result.append(f"topic: {self.topic!r} is that of packages: name them in `packages`")
        if self.packages is not None and self.topic not in SUFFIXES:
            known = ", ".join(SUFFIXES)
            result.append(f"topic: packages have no {self.topic!r}: choose one of {known}")
        return result

    @property
    def licence(self) -> str:
        if self.packages is not None:
            return package_licences(self.packages)
        return "Unicode-3.0" if self.topic == "unicode" else "PSF-2.0"

    def read(
        self, skipped: Counter[str], downloaded_files: list[dict[str, Any]]
    ) -> Iterator[Document]:
        """Documents of the topic, sorted by their place in the installation."""
        any_read = False
        for name, whole in self._topic_texts(skipped):
            if self.max_characters is not None and len(whole) > self.max_characters:
                skipped["too long"] += 1
                continue
            any_read = True
            for number, text in document_cutting.cut_documents(
                io.StringIO(whole), self.documents, name
            ):
                if document_cutting.is_blank(text):
                    skipped["blank"] += 1
                else:
                    yield Document(name if number is None else f"{name}:{number}", text)
        if not any_read:
            python = f"this Python ({_python_name_and_version()}) lacks"
            who = "packages lack" if self.packages else python
            raise InputError(
                f"topic {self.topic!r}: {who} it: choose another, or install a full Python"
            )

    def _topic_texts(self, skipped: Counter[str]) -> Iterator[Text]:
        if self.topic == "reference":
            # As `help()` shows them.
            return iter(sorted(_REFERENCE.items()))
        if self.topic == "unicode":
            return read_character_names()
        if self.packages is not None:
            files = package_files(self.packages, self.topic)
        elif self.topic == "tables":
            files = code_modules_below(_STDLIB / "encodings")
        else:
            # `_sysconfigdata...` was written when Python was built: it holds that machine's paths.
            listed = code_modules_below(_STDLIB)
            files = [one for one in listed if not one[1].name.startswith("_sysconfigdata")]
        readers = {
            "code": read_code,
            "docstrings": read_whole_docstrings_by_module,
            "doctests": read_doctests_by_module,
        }
        return readers.get(self.topic, read_texts)(files, skipped)

    def revision_facts(self, documents_sha256: str, /) -> dict[str, Any]:
        """The revision: what was read, with its version, and the identity of the documents.

        Raises:
            InputError: they are not those that `documents_sha256` names.
        """
        named = ", ".join(f"{name} {version}" for name, version in (self.packages or {}).items())
        named = named or _python_name_and_version()
        if (self.documents_sha256 or documents_sha256).lower() != documents_sha256:
            raise InputError(
                f"documents_sha256: topic {self.topic!r} of {named} gives documents of SHA-256 "
                f"{documents_sha256} here, not {self.documents_sha256}: its files are others in "
                "this environment"
            )
        return {"revision": f"{named} documents {documents_sha256}"}


def read_code(files: Files, skipped: Counter[str]) -> Iterator[Text]:
    """Modules without docstrings and comments, as `ast.unparse` writes them."""
    for name, tree in _parse_modules(files, skipped):
        for node, _ in _documented_nodes(tree):
            node.body = node.body[1:] or [ast.Pass()]
        yield name, ast.unparse(tree)


def read_whole_docstrings_by_module(files: Files, skipped: Counter[str]) -> Iterator[Text]:
    """The docstrings of each module, in the order of the file, blank lines between."""
    for name, tree in _parse_modules(files, skipped):
        found = [(getattr(node, "lineno", 0), text) for node, text in _documented_nodes(tree)]
        yield name, "\n\n".join(inspect.cleandoc(text) for _, text in sorted(found))


def read_doctests_by_module(files: Files, skipped: Counter[str]) -> Iterator[Text]:
    """The examples in the docstrings of each module, without the prose between them.

    Each is the lines that a person types, behind `>>>` and `...`, and what Python answers.
    """
    # It brings the debugger and unittest along, which no plan needs.
    import doctest

    parse = doctest.DocTestParser().get_examples
    for name, text in read_whole_docstrings_by_module(files, skipped):
        try:
            examples = parse(text)
        except ValueError:
            skipped["no doctests"] += 1
            continue
        turns = (">>> " + "... ".join(e.source.splitlines(True)) + e.want for e in examples)
        yield name, "".join(turns)


def read_texts(files: Files, skipped: Counter[str]) -> Iterator[Text]:
    """Files as they are."""
    for name, file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            skipped["not UTF-8"] += 1
            continue
        yield name, text


def read_character_names() -> Iterator[Text]:
    """Code points and their names, those left out whose name only repeats the code point."""
    lines: list[str] = []
    for point in range(0x110000):
        name = unicodedata.name(chr(point), "")
        if name and not name.endswith(f"-{point:04X}") and not name.startswith("HANGUL SYLLABLE"):
            lines.append(f"{point:04X} {name}")
    for first in range(0, len(lines), UNICODE_LINES):
        group = lines[first : first + UNICODE_LINES]
        yield f"U+{group[0].split()[0]}", "\n".join(group)


_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _python_name_and_version() -> str:
    return f"{platform.python_implementation()} {platform.python_version()}"


def code_modules_below(root: Path) -> list[tuple[str, Path]]:
    """Modules in the order of their relative names; folders of `_NOT_CODE` are not entered."""
    result: list[tuple[str, Path]] = []
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if name not in _NOT_CODE]
        matching = (Path(folder, name) for name in names if name.endswith(".py"))
        result += [(file.relative_to(root).as_posix(), file) for file in matching]
    return sorted(result)


def _parse_modules(files: Files, skipped: Counter[str]) -> Iterator[tuple[str, ast.Module]]:
    for name, text in read_texts(files, skipped):
        try:
            with warnings.catch_warnings():
                # Invalid escapes in other people's strings are not ours to report.
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except (SyntaxError, ValueError):
            skipped["not Python"] += 1
            continue
        yield name, tree


def _documented_nodes(tree: ast.Module) -> Iterator[tuple[_Documented, str]]:
    """What has a docstring, with it as it stands there."""
    # Definitions stand in blocks of statements; expressions are nine tenths of a tree.
    waiting: list[ast.AST] = [tree]
    for node in waiting:
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, block, ())
        if isinstance(node, _Documented):
            docstring = ast.get_docstring(node, clean=False)
            if docstring is not None:
                yield node, docstring
