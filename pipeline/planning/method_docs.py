"""What the mixing rules are, read from their source: names, settings, sentences.

A plan checks the settings of every method, but a plan must not wait for torch, which every rule's
module imports. So a module is read here and not run: the fields of the rule's class with their
annotations, defaults and docstrings, those of its base classes too.

A rule is a name in `METHODS`, or `package.module:Class` for a class of the user's own.
"""

import ast
import dataclasses
import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Union, cast

from pike_mixing import METHODS
from pike_mixing.errors import InputError
from pike_mixing.finders import FINDERS
from pike_mixing.settings import check, unknown
from pipeline.runtime import code_fingerprint

TYPES: dict[str, Any] = {t.__name__: t for t in (bool, dict, float, int, str, tuple)} | {
    "Literal": Literal
}
"""What a setting can be, beside None, unions of these, and names given to such types."""

_WANTED = f"a setting is one of {', '.join(TYPES)} and None"


@dataclasses.dataclass(frozen=True)
class SettingDoc:
    """One field of a rule's class."""

    name: str
    kind: Any
    """Its type."""
    default: str | None
    """Source text of the default; None where a value is required."""
    meaning: str
    """The docstring below the field."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """A mixing rule as its source tells it."""

    name: str
    place: str
    """`module:Class`."""
    about: str
    """One or two sentences in plain words; empty where a rule of the user's own has none."""
    formula: str
    """The docstring of the class: what it does in the field's words."""
    source: str
    """The docstring of the module: where the rule comes from."""
    settings: tuple[SettingDoc, ...]
    """In the order of the class, those of its base classes first."""


def problems(values: Mapping[str, Any], where: str) -> list[str]:
    """Every reason why these are not the settings of a mixing method.

    Args:
        values: The rule's name under `rule`, and its settings.
        where: Where they were set, for messages: "config.yaml: methods.pike".
    """
    rule = values.get("rule")
    if not isinstance(rule, str):
        return [f"{where}.rule: {rule!r} is not the name of a mixing rule: see `pike methods`"]
    try:
        kind = twin(rule)
    except InputError as error:
        return [f"{where}.{error}"]
    except RecursionError:
        return [f"{where}.rule: {rule}: its class, a type or an import refers to itself: unwind it"]
    return check(kind, {name: value for name, value in values.items() if name != "rule"}, where)


def finder_problems(finder: str, options: Mapping[str, Any], where: str) -> list[str]:
    """Every reason why these are not the options of a finder of `FINDERS`."""
    return check(_twin(FINDERS[finder]), options, where)


def place(rule: str) -> str:
    """Where a rule's class is: `module:Class`.

    Raises:
        InputError: there is no such rule.
    """
    if ":" not in rule:
        if rule not in METHODS:
            raise InputError(unknown(rule, METHODS, "rule"))
        return METHODS[rule]
    module, _, name = rule.partition(":")
    if not all(map(str.isidentifier, module.split("."))) or not code_fingerprint.exists(module):
        raise InputError(
            f"rule: there is no module {module!r}: install its package, or put the folder that "
            "holds it on PYTHONPATH"
        )
    where, node = _defined(name, module)
    if not isinstance(node, ast.ClassDef):
        raise InputError(f"rule: {module} defines no class {name!r}")
    _refuse_without_hooks(rule, where, node)
    return rule


def _refuse_without_hooks(rule: str, module: str, node: ast.ClassDef) -> None:
    """Makes sure that a class can be a mixing method, unless it inherits what is not read here.

    Raises:
        InputError: it lacks what every method answers.
    """
    lineage = list(_lineage(module, node))
    defined = {s.name for _, base in lineage for s in base.body if isinstance(s, ast.FunctionDef)}
    read = {base.name for _, base in lineage}
    bases = {ast.unparse(base).rpartition(".")[2] for _, each in lineage for base in each.bases}
    missing = sorted(_hooks() - defined)
    if missing and bases <= read | {"object"}:
        raise InputError(
            f"rule: {rule} is no mixing method: it has no {', '.join(missing)}: inherit "
            "pike_mixing.interface:MethodDefaults and define what is missing (CONTRIBUTING.md)"
        )


@functools.cache
def _hooks() -> set[str]:
    """What every mixing method answers."""
    node = _defined("Method", "pike_mixing.interface")[1]
    assert isinstance(node, ast.ClassDef), "the protocol of methods is a class"
    return {each.name for each in node.body if isinstance(each, ast.FunctionDef)}


def about(rule: str) -> str:
    """What a rule does, in one or two sentences for readers of the report."""
    return of(rule).about


@functools.cache
def of(rule: str) -> Rule:
    """A rule as its source tells it.

    Raises:
        InputError: there is no such rule, or a setting's type is none of `TYPES`.
    """
    found = place(rule)
    lineage = _class(found)
    module, node = lineage[0]
    sentences = [said for _, base in lineage for said in _about(base)]
    return Rule(
        name=rule,
        place=found,
        about=sentences[0] if sentences else "",
        formula=ast.get_docstring(node) or "",
        source=ast.get_docstring(_tree(module)) or "",
        settings=_all_settings(lineage),
    )


def _class(found: str) -> list[tuple[str, ast.ClassDef]]:
    """The class at a place `module:Class` and its base classes, each with its module."""
    module, _, name = found.partition(":")
    module, node = _defined(name, module)
    assert isinstance(node, ast.ClassDef), f"{found} is no class"
    return list(_lineage(module, node))


def _all_settings(lineage: list[tuple[str, ast.ClassDef]]) -> tuple[SettingDoc, ...]:
    settings: dict[str, SettingDoc] = {}
    for where, base in reversed(lineage):
        settings |= {setting.name: setting for setting in _settings(where, base)}
    return tuple(settings.values())


@functools.cache
def twin(rule: str) -> type[Any]:
    """A dataclass with the fields of a rule's class and nothing else, to check settings with.

    Raises:
        InputError: there is no such rule, or a setting's type is none of `TYPES`.
    """
    return _twin(place(rule))


def _twin(found: str) -> type[Any]:
    missing = dataclasses.MISSING
    fields = [
        (
            setting.name,
            setting.kind,
            dataclasses.field(
                # Only whether there is a default matters: no twin is ever made.
                default=missing if setting.default is None else None,
                metadata={"meaning": setting.meaning},
            ),
        )
        for setting in _all_settings(_class(found))
    ]
    return dataclasses.make_dataclass("Twin", fields, kw_only=True, frozen=True)


@functools.cache
def measured(rule: str) -> frozenset[str]:
    """What a rule has the training loop measure: names of the fields of `Needs` that it fills.

    They are read where the rule's class, or the nearest of its base classes that has one, returns
    `Needs(...)`; the values are not read.

    Raises:
        InputError: there is no such rule.
    """
    for _, base in _class(place(rule)):
        for method in base.body:
            if isinstance(method, ast.FunctionDef) and method.name == "needs":
                calls = [c for c in ast.walk(method) if isinstance(c, ast.Call)]
                needs = [c for c in calls if ast.unparse(c.func).split(".")[-1] == "Needs"]
                return frozenset(k.arg for c in needs for k in c.keywords if k.arg)
    return frozenset()


def _lineage(module: str, node: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef]]:
    """A class and its base classes, each with its module, nearest first."""
    yield module, node
    for base in node.bases:
        where, found = _defined(ast.unparse(base), module)
        if isinstance(found, ast.ClassDef):
            yield from _lineage(where, found)


def _settings(module: str, node: ast.ClassDef) -> Iterator[SettingDoc]:
    for statement, below in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        annotation = ast.unparse(statement.annotation)
        if annotation.removeprefix("typing.").startswith("ClassVar"):
            continue
        words = ""
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            words = " ".join(str(below.value.value).split())
        name = statement.target.id
        kind = _type(statement.annotation, module, f"{module}:{node.name}.{name}")
        yield SettingDoc(name, kind, _default(statement.value), words)


def _default(value: ast.expr | None) -> str | None:
    """The text of a default, that of `dataclasses.field(default_factory=dict)` being dict()."""
    if value is None:
        return None
    if isinstance(value, ast.Call) and ast.unparse(value.func) in ("field", "dataclasses.field"):
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in value.keywords}
        factory = given.get("default_factory")
        return given.get("default", None if factory is None else f"{factory}()")
    return ast.unparse(value)


def _type(annotation: ast.expr, module: str, where: str) -> Any:
    """The type that an annotation means, in the closed vocabulary of `TYPES`; nothing is run.

    Raises:
        InputError: it is another expression, or holds another name.
    """
    match annotation:
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=str(text)):
            try:
                return _type(ast.parse(text, mode="eval").body, module, where)
            except SyntaxError:
                raise _no_type(annotation, where) from None
        case ast.Name(id=name) if name in TYPES:
            return TYPES[name]
        case ast.Name(id=name):
            origin, meant = _defined(name, module)
            if isinstance(meant, ast.expr):
                return _type(meant, origin, where)
        case ast.Attribute(value=ast.Name(id="typing"), attr=name) if name in TYPES:
            return TYPES[name]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return cast(Any, Union)[_type(left, module, where), _type(right, module, where)]
        case ast.Subscript(value=of, slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return _generic(_type(of, module, where), parts, module, where)
    raise _no_type(annotation, where)


def _generic(of: Any, parts: list[ast.expr], module: str, where: str) -> Any:
    """A Literal of constants, a dict with types of its names and values, a tuple of any length."""
    constants = [part.value for part in parts if isinstance(part, ast.Constant)]
    if of is Literal and len(constants) == len(parts):
        return cast(Any, Literal)[tuple(constants)]
    if of is dict and len(parts) == 2:
        return types.GenericAlias(dict, tuple(_type(part, module, where) for part in parts))
    if of is tuple and len(parts) == 2 and constants == [...]:
        return types.GenericAlias(tuple, (_type(parts[0], module, where), ...))
    raise InputError(f"rule: {where} is of a type that no setting has: {_WANTED}")


def _no_type(annotation: ast.expr, where: str) -> InputError:
    return InputError(f"rule: {where} is of type {ast.unparse(annotation)}, but {_WANTED}")


def _about(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        if code_fingerprint.is_about(statement) and isinstance(statement, ast.AnnAssign):
            assert statement.value is not None, "`about` is a text"
            yield ast.literal_eval(statement.value)


def _tree(module: str) -> ast.Module:
    try:
        return code_fingerprint.tree(module)
    except InputError as error:
        raise InputError(f"rule: {error}") from None


def _defined(name: str, module: str) -> tuple[str, ast.ClassDef | ast.expr | None]:
    """The class or the value that a name stands for in a module, and the module that defines it."""
    tree = _tree(module)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if name in map(ast.unparse, targets):
                return module, node.value
    for found in ast.walk(tree):
        if isinstance(found, ast.ImportFrom) and found.module and not found.level:
            first_party = code_fingerprint.near(found.module, module)
            for alias in found.names:
                if name == (alias.asname or alias.name) and first_party:
                    return _defined(alias.name, found.module)
    return module, None
