"""What the mixing rules are, read from their source: names, settings, sentences.

A plan checks the settings of every method, but a plan must not wait for torch, which every rule's
module imports. So a module is read here and not run: the fields of the rule's class with their
annotations, defaults and docstrings, those of its base classes too.

A rule is a name in `METHODS`, or `package.module:Class` for a class of the user's own.
"""

import ast
import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pipeline import fingerprints
from pipeline.errors import InputError
from pipeline.mixing import METHODS
from pipeline.settings import check, unknown

TYPES: dict[str, Any] = {t.__name__: t for t in (bool, dict, float, int, str, tuple)} | {
    "Literal": Literal
}
"""What a setting can be, beside None, unions of these, and names given to such types."""


@dataclasses.dataclass(frozen=True)
class Setting:
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
    settings: tuple[Setting, ...]
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
    return check(kind, {name: value for name, value in values.items() if name != "rule"}, where)


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
    if not all(map(str.isidentifier, module.split("."))) or not fingerprints.exists(module):
        raise InputError(
            f"rule: there is no module {module!r}: install its package, or put the folder that "
            "holds it on PYTHONPATH"
        )
    if not isinstance(_defined(name, module)[1], ast.ClassDef):
        raise InputError(f"rule: {module} defines no class {name!r}")
    return rule


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
    module, _, name = found.partition(":")
    _, node = _defined(name, module)
    assert isinstance(node, ast.ClassDef), f"METHODS: {found} is no class"
    lineage = list(_lineage(module, node))
    settings: dict[str, Setting] = {}
    for where, base in reversed(lineage):
        settings |= {setting.name: setting for setting in _settings(where, base)}
    sentences = [said for _, base in lineage for said in _about(base)]
    return Rule(
        name=rule,
        place=found,
        about=sentences[0] if sentences else "",
        formula=ast.get_docstring(node) or "",
        source=ast.get_docstring(fingerprints.tree(module)) or "",
        settings=tuple(settings.values()),
    )


@functools.cache
def twin(rule: str) -> type[Any]:
    """A dataclass with the fields of a rule's class and nothing else, to check settings with.

    Raises:
        InputError: there is no such rule, or a setting's type is none of `TYPES`.
    """
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
        for setting in of(rule).settings
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
    module, _, name = place(rule).partition(":")
    _, node = _defined(name, module)
    assert isinstance(node, ast.ClassDef), f"{rule} is no class"
    for _, base in _lineage(module, node):
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


def _settings(module: str, node: ast.ClassDef) -> Iterator[Setting]:
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
        yield Setting(name, kind, _default(statement.value), words)


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
    """The type that an annotation means, in the closed vocabulary of `TYPES`.

    Raises:
        InputError: it holds another name.
    """
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    known = dict(TYPES)
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name) and node.id not in known:
            origin, meant = _defined(node.id, module)
            if not isinstance(meant, ast.expr):
                raise InputError(
                    f"rule: {where} is of type {node.id}, but a setting is one of "
                    f"{', '.join(TYPES)} and None"
                )
            known[node.id] = _type(meant, origin, where)
    code = compile(ast.Expression(annotation), where, "eval")
    return eval(code, {"__builtins__": {}}, known)


def _about(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        if fingerprints.is_about(statement) and isinstance(statement, ast.AnnAssign):
            assert statement.value is not None, "`about` is a text"
            yield ast.literal_eval(statement.value)


def _defined(name: str, module: str) -> tuple[str, ast.ClassDef | ast.expr | None]:
    """The class or the value that a name stands for in a module, and the module that defines it."""
    tree = fingerprints.tree(module)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if name in map(ast.unparse, targets):
                return module, node.value
    for found in ast.walk(tree):
        if isinstance(found, ast.ImportFrom) and found.module and not found.level:
            first_party = fingerprints.near(found.module, module)
            for alias in found.names:
                if name == (alias.asname or alias.name) and first_party:
                    return _defined(alias.name, found.module)
    return module, None
