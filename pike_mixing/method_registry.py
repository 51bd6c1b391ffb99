"""From a method's name and plain settings to its class and the method itself."""

import contextlib
import dataclasses
import importlib
import inspect
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from pike_mixing import RULES
from pike_mixing.errors import InputError
from pike_mixing.interface import Method
from pike_mixing.setting_messages import unknown_name_message
from pike_mixing.settings import parse_settings


def unknown_rule_message(rule: str) -> str:
    """That there is no such rule, with the nearest name, and how a class of one's own is named."""
    return (
        f"{unknown_name_message(rule, RULES, 'rule')} (a class of your own is named MODULE:CLASS, "
        "as mine:Proportional)"
    )


def refuse_file_name(rule: str) -> None:
    """Raises InputError where a file's name stands for the module of a class of one's own."""
    file, _, name = rule.partition(":")
    if not file.endswith(".py") and "/" not in file:
        return
    path = Path(file)
    folder = f", and put the folder {path.parent} on PYTHONPATH" if path.parent.name else ""
    raise InputError(f"rule: {rule!r} names a file: write {path.stem}:{name or 'CLASS'}{folder}")


def undefined_class_message(module: str, name: str, classes: Iterable[str]) -> str:
    """That a module has no class of this name, with the nearest of those that it has."""
    return unknown_name_message(name, classes, f"rule: {module} defines no such class")


@contextlib.contextmanager
def own_faults_told(rule: str) -> Iterator[None]:
    """Whatever the code of a class of one's own raises becomes an InputError of one sentence.

    Faults in the rules of `RULES` are ours and pass.
    """
    try:
        yield
    except Exception as error:
        if rule in RULES or isinstance(error, InputError):
            raise
        own = Path(*rule.partition(":")[0].split(".")).with_suffix(".py").parts
        frames = traceback.extract_tb(error.__traceback__)
        of_class = [f for f in frames if Path(f.filename).parts[-len(own) :] == own]
        at = (of_class or frames)[-1]
        place = f"{at.filename}:{at.lineno}, in {at.name}"
        if isinstance(error, SyntaxError):
            place = f"{error.filename}:{error.lineno}"
        said = " ".join(str(error).split())
        if "NoneType" in said:
            said += ", and a signal is None if `needs` does not ask for it"
        raise InputError(
            f"rule: {rule!r} fails: {type(error).__name__}: {said} ({place}): mend it there"
        ) from error


def rule_class(rule: str) -> type[Any]:
    """The settings dataclass of a rule: a name in `RULES`, or one's own `package.module:Class`.

    Raises:
        InputError: there is no such rule.
    """
    module, _, name = RULES.get(rule, rule).partition(":")
    refuse_file_name(rule)
    if not name:
        raise InputError(unknown_rule_message(rule))
    if not module or module.startswith("."):
        raise InputError(f"rule: {rule!r} cannot be imported: name its module in full")
    try:
        with own_faults_told(rule):
            imported = importlib.import_module(module)
    except InputError as error:
        lacking = error.__cause__
        if not isinstance(lacking, ModuleNotFoundError):
            raise
        remedy = ""
        if lacking.name == module:
            remedy = ": correct the name, or put the folder that holds it on PYTHONPATH"
        raise InputError(f"rule: {rule!r} cannot be imported: {lacking}{remedy}") from error
    if not hasattr(imported, name):
        classes = [one for one, value in vars(imported).items() if isinstance(value, type)]
        raise InputError(undefined_class_message(module, name, classes))
    result = getattr(imported, name)
    if not (isinstance(result, type) and dataclasses.is_dataclass(result)):
        raise InputError(
            f"rule: {rule!r} is no dataclass: put @dataclasses.dataclass(frozen=True) before the "
            "class (docs/your-method.md)"
        )
    if not issubclass(result, Method) or inspect.isabstract(result):
        raise InputError(
            f"rule: {rule!r} is no mixing method: inherit pike_mixing.interface:Method and define "
            "`init` (docs/your-method.md)"
        )
    return result


def build_method(rule: str, values: Mapping[str, Any], place: str) -> Method:
    """The method of a rule with its settings.

    Args:
        rule: A name of `RULES`.
        values: Plain JSON values by setting.
        place: Where they were set, for messages.

    Raises:
        InputError: unknown rule, or settings that do not fit it; all of them in one message.
    """
    return cast(Method, parse_settings(rule_class(rule), values, place))


class _Methods(Mapping[str, type[Any]]):
    """From a rule's name to its class, which is imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Any]:
        if name not in RULES:
            raise KeyError(name)
        return rule_class(name)

    def __iter__(self) -> Iterator[str]:
        return iter(RULES)

    def __len__(self) -> int:
        return len(RULES)


METHODS = _Methods()
"""The classes of all rules by name: `METHODS["pike"] is PiKE`."""


def make(rule: str, /, **settings: Any) -> Method:
    """The method of a rule in `METHODS`, or of one's own `package.module:Class`.

    `make("pike", zeta1=0.05, zeta2=0.005)`.

    Raises:
        InputError: unknown rule, or settings that do not fit it, with the nearest names.
    """
    return build_method(rule, settings, rule)
