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

Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
MEMORY = source_names.PACKAGE / "__pycache__" / "code_fingerprints.json"
"""What was read of modules, by their bytes: parsing them takes half a second at each start."""


@functools.cache
def of(*modules: str, assets: tuple[str, ...] = ()) -> str:
    """Fingerprint of the modules (dotted names), of all they import, and of other files.

    16 hex digits, and as many behind a dash for each file or folder of files that decides the
    result, too, as queries and page templates do.
    """
    digests = {module: _read(module)[0] for module in sorted(closure(*modules))}
    _keep_memory()
    return "-".join([_together(digests), *map(_of_files, assets)])


@functools.cache
def _of_files(asset: str) -> str:
    top = source_names.PACKAGE
    listed = [top / asset, *sorted((top / asset).rglob("*"))]
    files = (f for f in listed if f.is_file() and f.suffix != ".pyc")
    return _together({f.relative_to(top).as_posix(): _sha256(f.read_bytes()) for f in files})


def _together(digests: dict[str, str]) -> str:
    return _sha256("".join(f"{name}\n{one}\n" for name, one in digests.items()).encode())[:16]


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def closure(*modules: str) -> set[str]:
    """The modules and every one near them that they import, directly or through others."""
    result: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in result:
            result.add(module)
            waiting.extend(imports(module))
    packages = {
        m for m in filter(source_names.is_first_party, result) if source_names.is_package(m)
    }
    return result - packages


def named(modules: Iterable[str]) -> set[str]:
    """The top-level names that modules import themselves, of whoever."""
    return {name.partition(".")[0] for module in modules for name in _read(module)[1]}


def loaded(*known: str) -> dict[str, str | None]:
    """Digests of the modules of the user's own that this process has imported, by dotted name.

    `known` are left out, with all that their code names: they have a fingerprint.
    """
    names = {*sys.modules} - closure(*known)
    own = sorted(name for name in names if _is_own(name.partition(".")[0]))
    return {name: digest for name in own if (digest := of_module(name)) is not None}


def of_module(module: str) -> str | None:
    """Digest of the code of one module; None where there is no such source."""
    return _read(module)[0][:16] if source_names.exists(module) else None


@functools.cache
def commit() -> str | None:
    """The git commit of the code, `+` behind it when files differ from it.

    None without git, or where a folder above the code is another repository, such as one whose
    environment it is installed in.
    """

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "-C", str(source_names.ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    try:
        head = git("rev-parse", "HEAD", "--show-toplevel")
        changed = git("status", "--porcelain", "--", *source_names.FIRST_PARTY)
    except OSError:
        return None
    if head.returncode:
        return None
    result, top = head.stdout.splitlines()
    if Path(top).resolve() != source_names.ROOT.resolve():
        return None
    return result + ("+" if changed.stdout.strip() else "")


@functools.cache
def imports(module: str) -> frozenset[str]:
    """Modules of this repository that a module imports, those inside functions included.

    For a module of the user's own these are the user's modules, too.
    """
    named = _read(module)[1]
    names = {*named, *map(source_names.defined_in, named)}
    if source_names.is_first_party(module):
        near = {*filter(source_names.is_first_party, names)}
    else:
        # Who imports a.b.c runs the packages a and a.b, too.
        parts = [name.split(".") for name in (*names, module)]
        names |= {".".join(part[:n]) for part in parts for n in range(1, len(part))}
        known = (*source_names.FIRST_PARTY, module.partition(".")[0])
        tops = {name: name.partition(".")[0] for name in names}
        near = {name for name, top in tops.items() if top in known or _is_own(top)}
    return frozenset(filter(source_names.exists, near))


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
    content = _sha256(_own() + source_names.path_of(module).read_bytes())
    known = _memory().get(module, [])
    if known[:1] != [content]:
        tree = source_names.tree(module)
        names: set[str] = set()
        packages: dict[str, str] = {}
        for node in _statements(tree):
            pairs = source_names.bound(node, module)
            # `from pipeline.data import shards` names a module, `from x import f` does not.
            names.update(full for _, full in pairs)
            if isinstance(node, ast.ImportFrom):
                names.add(source_names.origin(node, module))
            else:
                packages |= {own: full for own, full in pairs if source_names.is_first_party(full)}
        # `import pike_mixing` names no module, `pike_mixing.PiKE` does (`defined_in`).
        for part in ast.walk(tree) if packages else ():
            if isinstance(part, ast.Attribute) and (
                package := packages.get(ast.unparse(part.value))
            ):
                names.add(f"{package}.{part.attr}")
        known = [content, _sha256(_shape(tree).encode()), sorted(names)]
        _memory()[module] = known
        _unkept.add(module)
    return known[1], known[2]


@functools.cache
def _own() -> bytes:
    """The code that finds this out, which decides, too."""
    return Path(__file__).read_bytes() + Path(source_names.__file__).read_bytes()


@functools.cache
def _memory() -> dict[str, Any]:
    """What was read before, or nothing where the file is missing or damaged."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        known = json.loads(MEMORY.read_text(encoding="utf-8"))
        if isinstance(known, dict) and all(map(_is_entry, known.values())):
            return known
    return {}


def _is_entry(value: Any) -> bool:
    """Whether a value is two digests and a list of names."""
    return (
        isinstance(value, list)
        and [type(part) for part in value] == [str, str, list]
        and all(isinstance(name, str) for name in value[2])
    )


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
    if isinstance(node, Scope):
        values = [(name, _code(node) if name == "body" else value) for name, value in values]
    inner = ",".join([f"{name}={_shape(value)}" for name, value in values if value])
    return f"{type(node).__name__}({inner})"


def _code(node: Scope) -> list[ast.stmt]:
    """The statements of a body but docstrings and what it says about itself."""
    return [one for one in node.body if not (_is_docstring(one) or is_about(one))]


def _is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement is a text alone, behind a head, a field or a constant."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def is_about(statement: ast.stmt) -> bool:
    """Whether a class says about itself, in a sentence for readers, what no code reads."""
    return (
        isinstance(statement, ast.AnnAssign)
        and ast.unparse(statement.target) == "about"
        and ast.unparse(statement.annotation).startswith("ClassVar")
    )
