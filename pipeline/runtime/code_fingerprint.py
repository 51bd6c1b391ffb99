"""Fingerprints of first-party code: what a stage's result is a function of, beside its inputs.

A fingerprint covers a module and everything first-party that it imports, transitively: modules of
these packages, and for a module of the user's own those of its package too. Comments, docstrings,
layout and what a class says `about` itself do not count. Package `__init__` files hold names only
(a test keeps them so) and do not count either: adding a method's name to the table re-runs no other
method.
"""

import ast
import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pipeline"
FIRST_PARTY = (PACKAGE.name, "pike_mixing")
"""The packages of this repository."""
MEMORY = PACKAGE / "__pycache__" / "code_fingerprints.json"
"""What was read of modules, by their bytes: parsing them takes half a second at each start."""


@functools.cache
def of(*modules: str) -> str:
    """Fingerprint of the modules (dotted names) and of all they import: 16 hex digits."""
    digest = hashlib.sha256()
    for module in sorted(closure(*modules)):
        digest.update(f"{module}\n{_read(module)[0]}\n".encode())
    _keep_memory()
    return digest.hexdigest()[:16]


@functools.cache
def of_files(folder: str) -> str:
    """Fingerprint of the files of a folder of the package that are not Python: 16 hex digits.

    Queries and page templates decide a stage's result as its modules do.
    """
    digest = hashlib.sha256()
    for path in sorted((PACKAGE / folder).rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            name = path.relative_to(PACKAGE).as_posix()
            digest.update(f"{name}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def closure(*modules: str) -> set[str]:
    """The modules and every first-party module that they import, directly or through others."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting.extend(imports(module))
    return {m for m in found if _path(m).name != "__init__.py"}


@functools.cache
def commit() -> str | None:
    """The git commit of the code, `+` behind it when files differ from it; None without git."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    head = git("rev-parse", "HEAD")
    if head is None:
        return None
    return head + ("+" if git("status", "--porcelain", "--", *FIRST_PARTY) else "")


@functools.cache
def imports(module: str) -> frozenset[str]:
    """First-party modules that a module imports, those inside functions included."""
    return frozenset(m for m in _read(module)[1] if near(m, module) and exists(m))


def near(name: str, module: str) -> bool:
    """Whether a dotted name is of this package or of the package of `module`."""
    return name.partition(".")[0] in (*FIRST_PARTY, module.partition(".")[0])


def exists(module: str) -> bool:
    """Whether there is a module of this dotted name; none is imported to find out."""
    return _path(module).is_file()


@functools.cache
def tree(module: str) -> ast.Module:
    """Syntax tree of a module's source.

    Raises:
        InputError: it is no Python.
    """
    path = _path(module)
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except SyntaxError as error:
        raise InputError(f"{path}, line {error.lineno or 1}: {error.msg}: mend it") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}: mend it") from None


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Every statement of a module but those for type checkers alone."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            inner = (ast.stmt, ast.ExceptHandler, ast.match_case)
            waiting += [child for child in ast.iter_child_nodes(node) if isinstance(child, inner)]


@functools.cache
def _path(module: str) -> Path:
    top, *parts = module.split(".")
    place = _root(top).joinpath(top, *parts)
    package = place / "__init__.py"
    return package if package.exists() else place.with_suffix(".py")


@functools.cache
def _root(top: str) -> Path:
    """The folder that holds a top-level module or package."""
    # What runs (`__main__`) has no place that could be found.
    known = top in (*FIRST_PARTY, "__main__")
    spec = None if known else importlib.util.find_spec(top)
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).parent
    if spec is not None and spec.has_location and spec.origin is not None:
        return Path(spec.origin).parent
    return ROOT


@functools.cache
def _read(module: str) -> tuple[str, list[str]]:
    """Digest of a module's code, and the names that it imports: remembered by its bytes."""
    content = hashlib.sha256(_own() + _path(module).read_bytes()).hexdigest()
    known = _memory().get(module, [])
    if known[:1] != [content]:
        named: set[str] = set()
        for node in _statements(tree(module)):
            if isinstance(node, ast.Import):
                named.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                named.add(node.module)
                # `from pipeline.data import shards` names a module, `from x import f` does not.
                named.update(f"{node.module}.{alias.name}" for alias in node.names)
        digest = hashlib.sha256(_shape(tree(module)).encode()).hexdigest()
        _memory()[module] = known = [content, digest, sorted(named)]
        _unkept.add(module)
    return known[1], known[2]


@functools.cache
def _own() -> bytes:
    """This module's own code, which decides, too."""
    return Path(__file__).read_bytes()


@functools.cache
def _memory() -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(MEMORY.read_text(encoding="utf-8")))
    return {}


_unkept: set[str] = set()
"""Modules that the file of the memory lacks."""


def _keep_memory() -> None:
    # A folder that cannot be written costs time at the next start and no truth.
    if _unkept:
        with contextlib.suppress(OSError):
            MEMORY.parent.mkdir(exist_ok=True)
            partial = MEMORY.with_suffix(f".{os.getpid()}")
            partial.write_text(json.dumps(_memory()), encoding="utf-8")
            partial.replace(MEMORY)
        _unkept.clear()


def _shape(node: object) -> str:
    """A text of the syntax tree that is the same on every Python version.

    `ast.dump` is not: versions differ in which empty fields exist and are shown.
    """
    if isinstance(node, list):
        return f"[{','.join(map(_shape, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Constant):
        # Falsy constants (0, "", None, False) differ in meaning and must not be dropped.
        return f"Constant={node.value!r}"
    values = [(name, getattr(node, name, None)) for name in node._fields if name != "ctx"]
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        values = [(name, _code(node) if name == "body" else value) for name, value in values]
    inner = ",".join([f"{name}={_shape(value)}" for name, value in values if value])
    return f"{type(node).__name__}({inner})"


def _code(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
) -> list[ast.stmt]:
    """The statements of a body but its docstring and what it says about itself."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return [statement for statement in body if not is_about(statement)]


def is_about(statement: ast.stmt) -> bool:
    """Whether a class says about itself, in a sentence for readers, what no code reads."""
    return (
        isinstance(statement, ast.AnnAssign)
        and ast.unparse(statement.target) == "about"
        and ast.unparse(statement.annotation).startswith("ClassVar")
    )
