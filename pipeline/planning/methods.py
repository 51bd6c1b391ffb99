"""What a plan asks about mixing methods: where they are, what they measure, what they cannot train.

The project's rules are imported and constructed: they need NumPy alone. A class of the user's own,
`package.module:Class`, may import anything: a plan looks whether its module defines it, and its
settings are checked when the workflow starts (`custom_method_problems`).
"""

import ast
import contextlib
import dataclasses
import functools
import importlib.util
import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pike_mixing import RULES, interface, method_registry, method_trial
from pike_mixing.errors import InputError
from pike_mixing.finders import FINDERS
from pike_mixing.finders import build_finder as finders
from pike_mixing.interface import Method, Needs
from pike_mixing.settings import field_problems
from pipeline import settings
from pipeline.planning import method_catalogue, normal_form
from pipeline.runtime import code_fingerprint
from pipeline.runtime.programs import program_command
from pipeline.runtime.validate_settings import validate

log = logging.getLogger("pike")

PLAN_KEYS = ("rule", "grid", "training")
"""Keys of a method that the plan reads; all others are settings of its rule."""


def rule_settings(method: Mapping[str, Any]) -> dict[str, Any]:
    """What a method sets of its rule."""
    return {name: value for name, value in method.items() if name not in PLAN_KEYS}


def class_reference(mixing_rule: str) -> str:
    """Where a rule's class is: `module:Class`; an InputError where there is no such rule."""
    if mixing_rule in RULES:
        return RULES[mixing_rule]
    method_registry.refuse_file_name(mixing_rule)
    module, _, name = mixing_rule.partition(":")
    if not name:
        raise InputError(method_registry.unknown_rule_message(mixing_rule))
    is_dotted = all(map(str.isidentifier, module.split(".")))
    if not is_dotted or not code_fingerprint.has_source_file(module):
        raise InputError(
            f"rule: there is no module {module!r}: install its package, or put the folder that "
            "holds it on PYTHONPATH"
        )
    statements = [node for node in _all_syntax_nodes(module) if isinstance(node, ast.ImportFrom)]
    imported = {alias.asname or alias.name for node in statements for alias in node.names}
    if name not in imported and _find_class_definition(module, name) is None:
        classes = [n.name for n in _all_syntax_nodes(module) if isinstance(n, ast.ClassDef)]
        raise InputError(method_registry.undefined_class_message(module, name, classes))
    return mixing_rule


def rule_about(mixing_rule: str) -> str:
    """What a rule does, in one or two sentences for the report's readers; "" without any."""
    if mixing_rule in RULES:
        return method_registry.rule_class(mixing_rule).about
    node = next(_class_and_bases(mixing_rule), None)
    for statement in node.body if node else ():
        if code_fingerprint.is_class_description_assignment(statement) and isinstance(
            statement, ast.AnnAssign
        ):
            assert statement.value is not None, "`about` is a text"
            return str(ast.literal_eval(statement.value))
    return ""


def fill_method_defaults(
    method: Mapping[str, Any], left_out: Collection[str] = ()
) -> dict[str, Any]:
    """A method with the defaults of its rule filled in.

    Of a class of the user's own, which is not imported, these are the literals behind its fields.
    Settings that others find are `left_out`.
    """
    rule, given = method["rule"], rule_settings(method)
    if rule in RULES:
        result = normal_form.fill_top_level_class_defaults(method_registry.rule_class(rule), given)
    else:
        result = normal_form.fill_top_level_defaults(_literal_defaults(rule), given)
    of_plan = {name: one for name in PLAN_KEYS if (one := method.get(name)) is not None}
    return {**of_plan, **{n: v for n, v in result.items() if n in given or n not in left_out}}


@functools.cache
def _literal_defaults(mixing_rule: str) -> dict[str, Any]:
    """Defaults of the fields of a class of the user's own, where they are literals."""
    result: dict[str, Any] = {}
    for node in reversed([*_class_and_bases(mixing_rule)]):
        is_dataclass = any("dataclass" in ast.unparse(one) for one in node.decorator_list)
        for statement in node.body if is_dataclass else ():
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                name = statement.target.id
                is_field = "ClassVar" not in ast.unparse(statement.annotation)
                result.pop(name, None)
                with contextlib.suppress(ValueError):
                    if statement.value and is_field:
                        result[name] = ast.literal_eval(statement.value)
    return result


@functools.cache
def has_setting(mixing_rule: str, name: str) -> bool:
    """Whether a rule's class has, or inherits, a setting of this name; an unknown rule has none."""
    if mixing_rule in RULES:
        kind = method_registry.rule_class(mixing_rule)
        return any(field.name == name for field in dataclasses.fields(kind))
    statements = (s for node in _class_and_bases(mixing_rule) for s in node.body)
    fields = (s.target for s in statements if isinstance(s, ast.AnnAssign))
    return any(isinstance(field, ast.Name) and field.id == name for field in fields)


def _find_class_definition(existing_module: str, name: str) -> ast.ClassDef | None:
    """The class of the user's own as its module defines it; None where it defines none so named."""
    nodes = _all_syntax_nodes(existing_module)
    classes = (node for node in nodes if isinstance(node, ast.ClassDef))
    return next((node for node in classes if node.name == name), None)


def _class_and_bases(mixing_rule: str) -> Iterator[ast.ClassDef]:
    """The class behind `module:Class` and all that it inherits from, none of them imported."""
    waiting, seen = [mixing_rule], set[str]()
    while waiting:
        module, _, name = (place := waiting.pop()).partition(":")
        if place in seen or not code_fingerprint.has_source_file(module):
            continue
        seen.add(place)
        node = _find_class_definition(module, name)
        named = [name] if node is None else [ast.unparse(base) for base in node.bases]
        waiting += [code_fingerprint.class_reference(each, module) for each in named]
        if node is not None:
            yield node


def _all_syntax_nodes(existing_module: str) -> list[ast.AST]:
    try:
        return list(ast.walk(code_fingerprint.syntax_tree(existing_module)))
    except InputError as error:
        raise InputError(f"rule: {error}") from None


def run_needs_unless_custom_rule(run: Mapping[str, Any]) -> Needs:
    """What training measures for a run, given its `run.json`.

    Of a rule of the user's own nothing is known, and none of it is assumed.
    """
    if run["rule"] not in RULES:
        return Needs()
    steps, names = run["training"]["steps"], tuple(run["domains"])
    return _cached_needs(
        run["rule"], json.dumps(method_settings_with_first_choices(run)), names, steps
    )


@functools.cache
def _cached_needs(mixing_rule: str, settings: str, domains: tuple[str, ...], steps: int) -> Needs:
    return (
        _build_method(mixing_rule, settings)
        .for_run(method_trial.assumed_run_facts(domains, 1, steps))
        .needs()
    )


@functools.cache
def _build_method(mixing_rule: str, settings: str) -> Method:
    """The method of a rule with its settings as JSON: a plan asks for each in many runs."""
    return method_registry.build_method(mixing_rule, json.loads(settings), "")


def method_settings_with_first_choices(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run's method with the first of the settings that a grid chooses from: all cost alike."""
    return run["method"] | {name: values[0] for name, values in run.get("tuned", {}).items()}


def rule_name_and_type_problems(method: Mapping[str, Any], place: str) -> list[str]:
    """What is wrong with the rule's name, and with names and types of its settings.

    Their values are not judged: a scenario may lay others over them. `place` is where they were
    set, for messages: "config.yaml: methods.pike".
    """
    rule = method.get("rule")
    listed = f"`{program_command('pike')} methods` lists them"
    if "rule" not in method:
        others = f"; given are {', '.join(method)}" if method else ""
        return [f"{place}.rule: is missing: {listed}{others}"]
    if not isinstance(rule, str):
        return [f"{place}.rule: {rule!r} is not the name of a mixing rule: {listed}"]
    try:
        class_reference(rule)
    except InputError as error:
        return [f"{place}.{error}"]
    if rule not in RULES:
        return []
    # What a grid gives is judged in each scenario.
    given = (
        method_catalogue.placeholders_of_required_settings(rule) if "grid" in method else {}
    ) | rule_settings(method)
    return field_problems(method_registry.rule_class(rule), given, place, with_limits=False)


def construction_problems(
    mixing_rule: str,
    given: Mapping[str, Any],
    domains: Sequence[str],
    recipe: settings.Training,
    place: str,
) -> list[str]:
    """Every reason why a rule cannot train: it is constructed, and makes its first state.

    A class of the user's own is shown a few steps of made-up signals, too.
    """
    names = tuple(domains)
    facts = method_trial.assumed_run_facts(
        names, recipe.rows * recipe.length * recipe.steps, recipe.steps
    )
    try:
        with method_registry.own_faults_told(mixing_rule):
            method = _build_method(mixing_rule, json.dumps(given)).for_run(facts)
            if mixing_rule in RULES:
                interface.rows_of_domains(
                    method, method.init(names, 0), 0, recipe.rows, recipe.rounding, len(names)
                )
            else:
                method_trial.try_method(
                    method, names, recipe.rows, rounding=recipe.rounding, steps=recipe.steps
                )
            need = method.needs().statistics
    except InputError as error:
        lines = str(error).splitlines()
        return [place + line if line[0] in ".:" else f"{place}: {line}" for line in lines]
    return [f"{place}: {problem}" for problem in recipe.variance_problems(need, len(names))]


def finder_problems(mixtures: Collection[Mapping[str, Any]]) -> list[str]:
    """Packages of finders that are not installed, finders of epochs, and caps on them."""
    named = sorted({m["finder"] for m in mixtures} & FINDERS.keys())
    problems = [
        problem for name in named if (problem := finders.missing_finder_package_message(name))
    ]
    problems += [
        f"mixtures: the finder {name!r} reads how much text each run had, which mixtures of a "
        "configuration do not tell: take another, or fit a table (pike-mixing fit)"
        for name in named
        if finders.finder_class(name).reads == "epochs"
    ]
    problems += [
        f"mixtures: the cap on epochs of {one['finder']!r}: mixtures of a configuration do not "
        "tell how much text there is: leave it out, give 'mixing-law' tokens_by_domain and "
        "budget_tokens, or fit a table (pike-mixing fit)"
        for one in mixtures
        if (given := one.get("options") or {}).get("epochs") and "budget_tokens" not in given
    ]
    return [*dict.fromkeys(problems)]


def custom_method_problems(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every reason, once, why methods of the user's own cannot train their runs, by run.json."""
    own, problems = [run for run in runs if run["rule"] not in RULES], list[str]()
    if own and importlib.util.find_spec("torch") is None:
        log.warning("without torch here, each training job checks its own method")
        own = []
    for run in own:
        where = f"methods.{run['method_name']} in scenario {run['scenario']}"
        recipe = validate(settings.Training, run["training"], f"{where}: training")
        problems += construction_problems(
            run["rule"], method_settings_with_first_choices(run), run["domains"], recipe, where
        )
    return [*dict.fromkeys(problems)]
