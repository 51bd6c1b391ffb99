"""Fingerprints of code: what a stage's result is a function of, beside its inputs.

A fingerprint covers a module and all that it imports, transitively: modules of this repository, and
for a module of the user's own every other one that is neither Python's nor of an installed package,
with the `__init__` of its packages. What is imported by a computed name is found when it was
imported (`loaded`). Comments, docstrings, layout and what a class says `about` itself do not count.
Nor do this repository's `__init__` files, which hold names only (a test keeps them so): adding a
method's name to the table re-runs no other method.
"""

import ast
import contextlib
import functools
import hashlib
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pipeline.runtime import source_names

MEMORY = source_names.PACKAGE / "__pycache__" / "code_fingerprints.json"
"""What was read of modules, by their bytes: parsing them takes half a second at each start."""


@functools.cache
def of(*modules: str, assets: tuple[str, ...] = ()) -> str:
    """Fingerprint of the modules (dotted names), of all they import, and of folders of files.

    Args:
        modules: Dotted names.
        assets: Folders of the package whose files decide the result, too, as queries and page
            templates do.

    Returns:
        16 hex digits, and as many behind a dash for each folder.
    """
    digest = hashlib.sha256()
    for module in sorted(closure(*modules)):
        digest.update(f"{module}\n{_read(module)[0]}\n".encode())
    _keep_memory()
    return "-".join([digest.hexdigest()[:16], *map(_of_files, assets)])


@functools.cache
def _of_files(folder: str) -> str:
    digest = hashlib.sha256()
    for path in sorted((source_names.PACKAGE / folder).rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            name = path.relative_to(source_names.PACKAGE).as_posix()
            digest.update(f"{name}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def closure(*modules: str) -> set[str]:
    """The modules and every one near them that they import, directly or through others."""
    result: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in result:
            result.add(module)
            waiting.extend(imports(module))
    return {
        m
        for m in result
        if source_names.path_of(m).name != "__init__.py" or not source_names.is_first_party(m)
    }


def named(modules: Iterable[str]) -> set[str]:
    """The top-level names that modules import themselves, of whoever."""
    return {name.partition(".")[0] for module in modules for name in _read(module)[1]}


def loaded(*known: str) -> dict[str, str | None]:
    """The modules of the user's own that this process has imported, beside those that are known.

    Args:
        known: Modules whose fingerprint is recorded, with all that their code names.

    Returns:
        Digest by dotted name.
    """
    beside = closure(*known)
    names = [name for name in [*sys.modules] if name not in beside]
    own = [name for name in names if _is_own(name.partition(".")[0])]
    return {name: digest for name in sorted(own) if (digest := of_module(name)) is not None}


def of_module(module: str) -> str | None:
    """Digest of the code of one module; None where there is no such source."""
    return _read(module)[0][:16] if source_names.exists(module) else None


@functools.cache
def commit() -> str | None:
    """The git commit of the code, `+` behind it when files differ from it; None without git."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(source_names.ROOT), *arguments],
                capture_output=True,
                text=True,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    head = git("rev-parse", "HEAD")
    if head is None:
        return None
    return head + ("+" if git("status", "--porcelain", "--", *source_names.FIRST_PARTY) else "")


@functools.cache
def imports(module: str) -> frozenset[str]:
    """Modules near a module that it imports, those inside functions included."""
    named = _read(module)[1]
    result = {name for name in (*named, *map(source_names.defined_in, named)) if near(name, module)}
    if not source_names.is_first_party(module):
        # Who imports a.b.c runs the packages a and a.b, too.
        parts = [name.split(".") for name in (*result, module)]
        result |= {".".join(p[:n]) for p in parts for n in range(1, len(p)) if near(p[0], module)}
    return frozenset(filter(source_names.exists, result))


def near(name: str, module: str) -> bool:
    """Whether a dotted name is of this repository or, for a module of the user's own, of theirs."""
    top, own = name.partition(".")[0], module.partition(".")[0]
    return source_names.is_first_party(name) or (
        not source_names.is_first_party(module) and (top == own or _is_own(top))
    )


@functools.cache
def _is_own(top: str) -> bool:
    """Whether a top-level name is the user's: neither ours, nor Python's, nor installed."""
    if top in source_names.FIRST_PARTY or top in sys.stdlib_module_names or top == "__main__":
        return False
    place = source_names.root(top)
    installed = {Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")}
    return place is not None and not any(place.is_relative_to(folder) for folder in installed)


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
def _read(module: str) -> tuple[str, list[str]]:
    """Digest of a module's code, and the names that it imports: remembered by its bytes."""
    content = hashlib.sha256(_own() + source_names.path_of(module).read_bytes()).hexdigest()
    known = _memory().get(module, [])
    if known[:1] != [content]:
        names: set[str] = set()
        packages: dict[str, str] = {}
        for node in _statements(source_names.tree(module)):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
                packages |= {
                    a.asname or a.name: a.name
                    for a in node.names
                    if source_names.is_first_party(a.name)
                }
            elif isinstance(node, ast.ImportFrom):
                origin = source_names.origin(node, module)
                names.add(origin)
                # `from pipeline.data import shards` names a module, `from x import f` does not.
                names.update(f"{origin}.{alias.name}" for alias in node.names)
        if packages:
            # `import pike_mixing` names no module, `pike_mixing.PiKE` does (`defined_in`).
            parts = (
                node
                for node in ast.walk(source_names.tree(module))
                if isinstance(node, ast.Attribute)
            )
            values = ((packages.get(ast.unparse(part.value)), part.attr) for part in parts)
            names.update(f"{package}.{name}" for package, name in values if package)
        digest = hashlib.sha256(_shape(source_names.tree(module)).encode()).hexdigest()
        _memory()[module] = known = [content, digest, sorted(names)]
        _unkept.add(module)
    return known[1], known[2]


@functools.cache
def _own() -> bytes:
    """The code that finds this out, which decides, too."""
    return Path(__file__).read_bytes() + Path(source_names.__file__).read_bytes()


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
