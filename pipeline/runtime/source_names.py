"""Where the names in Python sources come from, found by reading: nothing is imported."""

import ast
import functools
import importlib.util
from pathlib import Path

from pike_mixing.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pipeline"
FIRST_PARTY = (PACKAGE.name, "pike_mixing")
"""The packages of this repository."""


def is_first_party(module: str) -> bool:
    """Whether a module is of this repository."""
    return module.partition(".")[0] in FIRST_PARTY


def is_package(module: str) -> bool:
    return path_of(module).name == "__init__.py"


def exists(module: str) -> bool:
    """Whether there is a module of this dotted name; none is imported to find out."""
    return path_of(module).is_file()


@functools.cache
def tree(module: str) -> ast.Module:
    """Syntax tree of a module's source.

    Raises:
        InputError: it is no Python.
    """
    return parse(path_of(module))


def parse(path: Path) -> ast.Module:
    """Syntax tree of a file of Python.

    Raises:
        InputError: it is none.
    """
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except SyntaxError as error:
        raise InputError(f"{path}, line {error.lineno or 1}: {error.msg}: mend it") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}: mend it") from None


def origin(node: ast.ImportFrom, module: str) -> str:
    """The dotted name behind `from`; that of a relative import is made absolute."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    package = parts if is_package(module) else parts[:-1]
    return ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])


def imported_bindings(node: ast.AST, module: str) -> list[tuple[str, str]]:
    """The names that a statement imports: as the module calls them, and dotted."""
    if isinstance(node, ast.Import):
        return [(alias.asname or alias.name, alias.name) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        package = origin(node, module)
        return [(alias.asname or alias.name, f"{package}.{alias.name}") for alias in node.names]
    return []


def defined_in(name: str) -> str:
    """The module behind `package.Name`, where a package of this repository hands the name on."""
    package, _, last = name.rpartition(".")
    return _handed_on(package).get(last, name)


def place_of(name: str, module: str) -> str:
    """`module:Class` of a class by the name that a module has for it: its own, or imported."""
    known = dict(
        pair for node in ast.walk(tree(module)) for pair in imported_bindings(node, module)
    )
    first, dot, rest = name.partition(".")
    # What is no imported name is the module's own, or follows `import package.module`.
    full = known.get(first, first if dot else f"{module}.{first}") + dot + rest
    package, _, last = full.rpartition(".")
    return f"{_handed_on(package).get(last, package)}:{last}"


@functools.cache
def _handed_on(package: str) -> dict[str, str]:
    """Modules of the names that a package's `__init__` imports, for type checkers or for all."""
    if not is_first_party(package) or not is_package(package):
        return {}
    nodes = (node for node in ast.walk(tree(package)) if isinstance(node, ast.ImportFrom))
    return {alias.name: origin(node, package) for node in nodes for alias in node.names}


@functools.cache
def path_of(module: str) -> Path:
    """The file of a module, or of a package's `__init__`; there may be none."""
    top, *parts = module.split(".")
    place = (root(top) or ROOT).joinpath(top, *parts)
    package = place / "__init__.py"
    return package if package.exists() else place.with_suffix(".py")


@functools.cache
def root(top: str) -> Path | None:
    """The folder that holds a top-level module or package; None where there is none of it."""
    if top in FIRST_PARTY:
        return ROOT
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # What runs, and what tests make up, has no place that could be found.
        return None
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).parent
    if spec is not None and spec.has_location and spec.origin is not None:
        return Path(spec.origin).parent
    return None
