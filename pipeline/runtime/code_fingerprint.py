"""Fingerprints of code: what a stage's result is a function of, beside its inputs.

A fingerprint covers a module and all that it imports, transitively: modules of this repository, and
for a module of the user's own every other one that is neither Python's nor of an installed package,
with the `__init__` of its packages. Sources are read, not imported. What is imported by a computed
name or from a path is recorded by its file when it is run (`digests_of_loaded_files`).
Comments, docstrings, layout, what a class says `about` itself and what is for type checkers alone
do not count. Nor do this
repository's `__init__` files, which hold names only (a test keeps them so): adding a method's name
to the table re-runs no other method.
"""

import ast
import contextlib
import functools
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files, checksums, environment

PACKAGE = environment.ROOT / "pipeline"
FIRST_PARTY = (PACKAGE.name, "pike_mixing")
"""The packages of this repository."""
MEMORY = PACKAGE / "__pycache__" / f"code.{atomic_files.sha256(Path(__file__))[:16]}.json"
"""What was read of sources, by the code that reads them: parsing all takes half a second."""
COPYING = ("download", "fetch")
"""Stages that copy text: they compute with no package but those that their peer itself imports."""


@functools.cache
def fingerprint(*modules: str, assets: tuple[str, ...] = ()) -> str:
    """Fingerprint of the modules (dotted names), of all they import, and of other files.

    16 hex digits, and as many behind a dash for each file or folder of files that decides the
    result, too, as queries and page templates do.
    """
    parts = [
        code_files_by_module_or_asset(*modules),
        *(code_files_by_module_or_asset(assets=[asset]) for asset in assets),
    ]
    digests = [{name: code_digest(path) for name, path in sorted(part.items())} for part in parts]
    _digest_cache().save()
    return "-".join(atomic_files.json_digest(one)[:16] for one in digests)


def code_files_by_module_or_asset(*modules: str, assets: Sequence[str] = ()) -> dict[str, Path]:
    """The files of the modules, of all they import, and of assets; by module, or path in here."""
    result = {module: module_path(module) for module in import_closure(*modules)}
    for asset in assets:
        listed = [PACKAGE / asset, *(PACKAGE / asset).rglob("*")]
        own = (path for path in listed if path.is_file() and path.suffix != ".pyc")
        result |= {path.relative_to(PACKAGE).as_posix(): path for path in own}
    return result


def code_digest(path: Path) -> str:
    """Digest of a file: of Python's source of its code alone."""
    return _digest_and_imports(path).partition(" ")[0]


def package_versions(
    stage: str, modules: Sequence[str], interpreter: str | None = None
) -> dict[str, str] | None:
    """Versions of the packages that the modules of a stage compute with, by package.

    They are those of this interpreter, or of another that would do the work: None where that is
    not on this machine.
    """
    there = environment.computing_package_versions(interpreter)
    read = modules if stage in COPYING else import_closure(*modules)
    named = {top for module in read for top in _imports(module).tops}
    packages = [one for name, one in sorted(environment.COMPUTING.items()) if name in named]
    return None if there is None else {name: there[name] for name in packages if name in there}


def import_closure(*modules: str) -> set[str]:
    """The modules and every one near them that they import, directly or through others."""
    result: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in result and has_source_file(module):
            result.add(module)
            waiting += _imports(module).modules
    return {
        module for module in result if not (is_repository_module(module) and _is_package(module))
    }


class _Imports(NamedTuple):
    """What a module imports."""

    modules: list[str]
    """Those near it that it imports."""
    tops: frozenset[str]
    """The names of all packages that it imports."""


def _imports(module: str) -> _Imports:
    # A plan asks for those of this repository many times; the user's own may be edited.
    return _our_imports(module) if is_repository_module(module) else _read_imports(module)


def _read_imports(module: str) -> _Imports:
    names = _absolute_names(_digest_and_imports(module_path(module)), module)
    modules = [*filter(has_source_file, _possible_own_modules(module, names))]
    return _Imports(modules, frozenset(name.partition(".")[0] for name in names))


_our_imports = functools.cache(_read_imports)


@functools.cache
def _possible_own_modules(module: str, imported_names: tuple[str, ...]) -> list[str]:
    """Those of the names that a module imports which may be modules of this repository.

    For a module of the user's own they may be the user's modules, too.
    """
    names = {*imported_names, *map(_module_of_reexport, imported_names)}
    if is_repository_module(module):
        return [*filter(is_repository_module, names)]
    # Who imports a.b.c runs the packages a and a.b, too.
    parts = [name.split(".") for name in (*names, module)]
    names |= {".".join(part[:n]) for part in parts for n in range(1, len(part))}
    known = (*FIRST_PARTY, module.partition(".")[0])
    tops = {name: name.partition(".")[0] for name in names}
    return [name for name, top in tops.items() if top in known or _is_users_package(top)]


@functools.cache
def _absolute_names(digest_and_imports: str, module: str) -> tuple[str, ...]:
    """The dotted names that a module imports, those inside functions included."""
    return tuple(_absolute_name(name, module) for name in digest_and_imports.split()[1:])


@functools.cache
def is_repository_module(module: str) -> bool:
    """Whether a module is of this repository."""
    return module.partition(".")[0] in FIRST_PARTY


def has_source_file(module: str) -> bool:
    """Whether a dotted name is a module with a source; none is imported to find out."""
    return module_path(module).is_file()


@functools.cache
def module_path(module: str) -> Path:
    """The file of a module, or of a package's `__init__`; there may be none."""
    top, *parts = module.split(".")
    place = (_folder_holding_importable_package(top) or environment.ROOT).joinpath(top, *parts)
    package = place / "__init__.py"
    return package if package.exists() else place.with_suffix(".py")


def _is_package(module: str) -> bool:
    return module_path(module).name == "__init__.py"


@functools.cache
def _folder_holding_importable_package(top_level: str) -> Path | None:
    """The folder that holds any top-level module or package; None where there is none of it."""
    if top_level in FIRST_PARTY:
        return PACKAGE.parent
    try:
        spec = importlib.util.find_spec(top_level)
    except ValueError:  # What runs, and what tests make up, has no place that could be found.
        return None
    if spec is None:
        return None
    of_module = [spec.origin] if spec.has_location and spec.origin else []
    places = [*(spec.submodule_search_locations or of_module)]
    return Path(places[0]).parent if places else None


def _absolute_name(name: str, module: str) -> str:
    """A name as a module imports it, which begins with dots where it is relative, in full."""
    if level := len(name) - len(name.lstrip(".")):
        parts = module.split(".") if _is_package(module) else module.split(".")[:-1]
        name = ".".join([*parts[: len(parts) - level + 1], *filter(None, [name[level:]])])
    return name


def _module_of_reexport(name: str) -> str:
    """The module behind `package.Name`, where a package of this repository hands the name on."""
    package, _, last = name.rpartition(".")
    return _modules_of_exports(package).get(last, name)


@functools.cache
def _modules_of_exports(package: str) -> dict[str, str]:
    """Modules of the names that a package's `__init__` imports, for type checkers or for all."""
    if not is_repository_module(package) or not _is_package(package):
        return {}
    nodes = (node for node in ast.walk(syntax_tree(package)) if isinstance(node, ast.ImportFrom))
    return {
        alias.name: _absolute_name(_import_origin(node), package)
        for node in nodes
        for alias in node.names
    }


def class_reference(name: str, module: str) -> str:
    """`module:Class` of a class by the name that a module has for it: its own, or imported."""
    known = dict(pair for node in ast.walk(syntax_tree(module)) for pair in _import_bindings(node))
    first, dot, rest = name.partition(".")
    # What is no imported name is the module's own, or follows `import package.module`.
    own = first if dot else f"{module}.{first}"
    full = _absolute_name(known[first], module) if first in known else own
    package, _, last = f"{full}{dot}{rest}".rpartition(".")
    return f"{_modules_of_exports(package).get(last, package)}:{last}"


def syntax_tree(module: str) -> ast.Module:
    """Syntax tree of a module's source; what is no Python is refused."""
    return _parse_source(module_path(module))


def _parse_source(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except SyntaxError as error:
        raise InputError(f"{path}, line {error.lineno or 1}: {error.msg}: mend it") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}: mend it") from None


@functools.cache
def start_recording_loaded_files() -> None:
    """Notes from now on which files of the user's own this process runs, and what is in them.

    A module that is run from a path need not be among `sys.modules`, and its file may be another
    when a training of hours ends.
    """
    sys.addaudithook(_note_executed_file)


def _note_executed_file(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "exec" and (name := getattr(arguments[0], "co_filename", "")):
        # Installed packages write code themselves and run it, as compilers of models do.
        by = sys._getframe(1).f_code.co_filename
        path = os.path.abspath(name)  # noqa: PTH100
        if (by[0] == "<" or _is_users_file(by)) and _is_users_file(path) and Path(path).is_file():
            _run[path] = code_digest(Path(path))


def digests_of_loaded_files(*covered_modules: str) -> dict[str, str]:
    """Digests of the files of the user's own whose code this process has run, by path.

    Paths are relative to the working directory where they lie in it. The files of the modules
    `covered_modules`, and of all that their code names, are left out: they have a fingerprint.
    """
    loaded = {n: f for n, m in [*sys.modules.items()] if (f := getattr(m, "__file__", None))}
    for name, file in loaded.items():
        path = os.path.abspath(file)  # noqa: PTH100
        top = loaded.get(name.partition(".")[0], file)
        if (
            path not in _run
            and _is_users_file(path)
            and _is_users_file(top)
            and Path(path).is_file()
        ):
            _run[path] = code_digest(Path(path))
    main = getattr(sys.modules["__main__"], "__file__", None)
    apart = {
        str(path.absolute()) for path in code_files_by_module_or_asset(*covered_modules).values()
    }
    apart |= {os.path.abspath(main)} if main else set()  # noqa: PTH100
    here = Path.cwd()
    return {
        str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path: one
        for path, one in sorted(_run.items())
        if path not in apart
    }


def current_code_digest(recorded_path: str) -> str | None:
    """Digest of the code of one file that `digests_of_loaded_files` names; None where it is gone.

    A file that was moved together with its folder is found on Python's path.
    """
    path = Path(recorded_path)
    tails = [Path(*path.parts[n:]) for n in range(1, len(path.parts))]
    places = (path, *(Path(entry, tail) for tail in tails for entry in sys.path))
    place = next((place for place in places if place.is_file()), None)
    return None if place is None else code_digest(place)


_run: dict[str, str] = {}
"""Digests of files of the user's own, as they were when they were run, by absolute path."""
_NOT_OWN = tuple(
    f"{folder}{os.sep}"
    for folder in (
        *(str(PACKAGE.parent / name) for name in FIRST_PARTY),
        *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib")},
    )
)


def _is_users_file(path: str) -> bool:
    """Whether a file is the user's: neither ours, nor Python's, nor installed."""
    installed = re.search(r"/(site|dist)-packages/", path)
    return not (installed or path.startswith(_NOT_OWN))


@functools.cache
def _is_users_package(top: str) -> bool:
    """The same of a top-level module or package."""
    place = None if top in sys.stdlib_module_names else _folder_holding_importable_package(top)
    return place is not None and _is_users_file(f"{place / top}{os.sep}")


@functools.cache
def current_commit() -> str | None:
    """The git commit of the code, `+` behind it when files differ from it.

    None without git, or where a folder above the code is another repository, such as one whose
    environment it is installed in.
    """

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "-C", str(PACKAGE.parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    try:
        head = git("rev-parse", "HEAD", "--show-toplevel")
        changed = git("status", "--porcelain", "--", *FIRST_PARTY)
    except OSError:
        return None
    if head.returncode:
        return None
    result, top = head.stdout.splitlines()
    if Path(top).resolve() != PACKAGE.parent.resolve():
        return None
    return result + ("+" if changed.stdout.strip() else "")


@functools.cache
def _digest_cache() -> checksums.DigestCache:
    # Python makes the folder, unless it was told to write no bytecode.
    with contextlib.suppress(OSError):
        MEMORY.parent.mkdir(exist_ok=True)
    return checksums.DigestCache(MEMORY)


def _digest_and_imports(path: Path) -> str:
    """The digest of a file, and the names that it imports if it is Python, with blanks between."""
    return _digest_cache().read_cached(path, _digest_and_imports_text)


def _digest_and_imports_text(path: Path) -> str:
    if path.suffix != ".py":
        return atomic_files.sha256(path)[:16]
    code = _DropDocsAndTypeChecking().visit(_parse_source(path))
    shape = hashlib.sha256(_canonical_text(code).encode()).hexdigest()[:16]
    return " ".join([shape, *sorted(_imported_dotted_names(code))])


class _DropDocsAndTypeChecking(ast.NodeTransformer):
    """Leaves of a source what runs: neither docstrings nor what is for readers and type checkers.

    A docstring is any statement that is a text alone, behind a head, a field or a constant.
    """

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign | None:
        return None if is_class_description_assignment(node) else node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if "TYPE_CHECKING" in ast.unparse(node.test) else node


def _imported_dotted_names(code: ast.Module) -> set[str]:
    """The names that a module imports, relative ones with dots."""
    result: set[str] = set()
    packages: dict[str, str] = {}
    for node in ast.walk(code):
        pairs = _import_bindings(node)
        # `from pipeline.data import shards` names a module, `from x import f` does not.
        result.update(full for _, full in pairs)
        if isinstance(node, ast.ImportFrom):
            result.add(_import_origin(node))
        else:
            packages |= {own: full for own, full in pairs if is_repository_module(full)}
    # `import pike_mixing` names no module, `pike_mixing.PiKE` does (`_module_of_reexport`).
    for node in ast.walk(code) if packages else ():
        if isinstance(node, ast.Attribute) and (package := packages.get(ast.unparse(node.value))):
            result.add(f"{package}.{node.attr}")
    return result


def _import_origin(node: ast.ImportFrom) -> str:
    """What stands behind `from`."""
    return "." * node.level + (node.module or "")


def _import_bindings(node: ast.AST) -> list[tuple[str, str]]:
    """The names that a statement imports: as the module calls them, and dotted."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return []
    before = ""
    if isinstance(node, ast.ImportFrom):
        before = _import_origin(node) + ("." if node.module else "")
    return [(alias.asname or alias.name, before + alias.name) for alias in node.names]


def _canonical_text(node: object) -> str:
    """A text of the syntax tree that is the same on every Python version.

    `ast.dump` is not: versions differ in which empty fields exist and are shown.
    """
    if isinstance(node, list):
        return f"[{','.join(map(_canonical_text, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Constant):
        # Falsy constants (0, "", None, False) differ in meaning and must not be dropped.
        return f"Constant={node.value!r}"
    values = [(name, getattr(node, name, None)) for name in node._fields if name != "ctx"]
    inner = ",".join([f"{name}={_canonical_text(value)}" for name, value in values if value])
    return f"{type(node).__name__}({inner})"


def is_class_description_assignment(statement: ast.stmt) -> bool:
    """Whether a class says about itself, in a sentence for readers, what no code reads."""
    return (
        isinstance(statement, ast.AnnAssign)
        and ast.unparse(statement.target) == "about"
        and ast.unparse(statement.annotation).startswith("ClassVar")
    )
