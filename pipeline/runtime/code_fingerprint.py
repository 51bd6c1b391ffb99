"""Fingerprints of code: what a stage's result is a function of, beside its inputs.

A fingerprint covers a module and all that it imports, transitively: modules of this repository, and
for a module of the user's own every other one that is neither Python's nor of an installed package,
with the `__init__` of its packages. What is imported by a computed name or from a path is recorded
by its file when it is run (`watch`, `loaded_files`). Comments, docstrings, layout and what a class
says `about` itself do not count. Nor do this repository's `__init__` files, which hold names only
(a test keeps them so): adding a method's name to the table re-runs no other method.
"""

import ast
import contextlib
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pipeline.runtime import atomic_files, source_names

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
    return "-".join([_together(digests), *(_together(_files(asset)) for asset in assets)])


@functools.cache
def _files(asset: str) -> dict[str, str]:
    top = source_names.PACKAGE
    listed = [top / asset, *sorted((top / asset).rglob("*"))]
    files = (f for f in listed if f.is_file() and f.suffix != ".pyc")
    return {f.relative_to(top).as_posix(): _sha256(f.read_bytes()) for f in files}


def changed_files(*modules: str, assets: tuple[str, ...] = ()) -> list[Path]:
    """The files of code and assets that are not as `of` has read them; they are read anew."""

    def digests(modules: Iterable[str]) -> dict[Path, str]:
        read = {source_names.path_of(module): _read(module)[0] for module in closure(*modules)}
        top = source_names.PACKAGE
        return read | {top / name: one for a in assets for name, one in _files(a).items()}

    before = digests(modules)
    for cache in (of, _files, imports, _read, source_names.tree, source_names.path_of):
        cache.cache_clear()
    now = digests(filter(source_names.exists, modules))
    return sorted(path for path in before.keys() | now if before.get(path) != now.get(path))


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


def imported_names(modules: Iterable[str]) -> set[str]:
    """The top-level names that modules import themselves, of whoever."""
    return {name.partition(".")[0] for module in modules for name in _read(module)[1]}


def watch() -> None:
    """Notes from now on which files of the user's own this process runs, and what is in them.

    A module that is run from a path need not be among `sys.modules`, and its file may be another
    when a training of hours ends.
    """
    if not _watching:
        _watching.append(True)
        sys.addaudithook(_note)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "exec" and (name := getattr(arguments[0], "co_filename", "")):
        # Installed packages write code themselves and run it, as compilers of models do.
        by = sys._getframe(1).f_code.co_filename
        path = os.path.abspath(name)  # noqa: PTH100
        if (by[0] == "<" or _is_own_file(by)) and _is_own_file(path) and Path(path).is_file():
            _run[path] = of_file(path)


def loaded_files(*known: str) -> dict[str, str]:
    """Digests of the files of the user's own whose code this process has run, by path.

    Paths are relative to the working directory where they lie in it. The files of the modules
    `known`, and of all that their code names, are left out: they have a fingerprint.
    """
    files = {n: f for n, m in [*sys.modules.items()] if (f := getattr(m, "__file__", None))}
    for name, file in files.items():
        path = os.path.abspath(file)  # noqa: PTH100
        top = files.get(name.partition(".")[0], file)
        if path not in _run and _is_own_file(path) and _is_own_file(top):
            _run[path] = of_file(path)
    main = getattr(sys.modules["__main__"], "__file__", None)
    apart = {str(source_names.path_of(module).absolute()) for module in closure(*known)}
    apart |= {os.path.abspath(main)} if main else set()  # noqa: PTH100
    here = Path.cwd()
    return {
        str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path: digest
        for path, digest in sorted(_run.items())
        if path not in apart and digest is not None
    }


def of_file(name: str) -> str | None:
    """Digest of the code of one file that `loaded_files` names; None where it is gone.

    A file that was moved together with its folder is found on Python's path.
    """
    path = Path(name)
    tails = [Path(*path.parts[n:]) for n in range(1, len(path.parts))]
    places = (path, *(Path(entry, tail) for tail in tails for entry in sys.path))
    place = next((place for place in places if place.is_file()), None)
    return None if place is None else _of_source(place, atomic_files.stamp(place))


@functools.cache
def _of_source(path: Path, _: atomic_files.Stamp) -> str:
    content = path.read_bytes()
    if path.suffix == ".py":
        content = _shape(source_names.parse(path)).encode()
    return _sha256(content)[:16]


def _is_own_file(path: str) -> bool:
    """Whether a file is the user's: neither ours, nor Python's, nor installed."""
    installed = re.search(r"/(site|dist)-packages/", path)
    return not (installed or path.startswith(_NOT_OWN))


_run: dict[str, str | None] = {}
"""Digests of files of the user's own, as they were when they were run, by absolute path."""
_watching: list[bool] = []
_NOT_OWN = tuple(
    f"{folder}{os.sep}"
    for folder in (
        *(str(source_names.ROOT / name) for name in source_names.FIRST_PARTY),
        *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib")},
    )
)


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
            pairs = source_names.imported_bindings(node, module)
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
