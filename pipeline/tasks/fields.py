"""Values of a data set's record, checked: a wrong schema is named with its place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pike_mixing.errors import InputError

_ADVICE = "this is not the task's data set, fetch it with `pike fetch`"


@dataclass(frozen=True)
class Fields:
    """The fields of a record; each reader raises an InputError where a field is not of its kind."""

    record: Mapping[str, Any]
    """A row of a data set, as it is stored there."""
    place: str
    """Split and number of the row, for messages: "validation:17"."""

    def value(self, name: str) -> Any:
        """A field that must be there."""
        fields = self.record if isinstance(self.record, Mapping) else {}
        if name not in fields:
            known = ", ".join(map(repr, fields))
            raise InputError(f"{self.place}: no field {name!r} (fields: {known}): {_ADVICE}")
        return fields[name]

    def text(self, name: str) -> str:
        """A text with something in it, without surrounding blanks."""
        result = self.maybe_text(name)
        if not result:
            raise InputError(f"{self.place}: {name!r} is blank: {_ADVICE}")
        return result

    def maybe_text(self, name: str) -> str:
        """A text that may be blank, without surrounding blanks."""
        result = self.value(name)
        if not isinstance(result, str):
            raise self._other(name, result, "a text")
        return result.strip()

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of at least two texts, none of them blank."""
        result = self.value(name)
        if not isinstance(result, list) or len(result) < 2:
            raise self._other(name, result, "a list of options")
        named = {f"{name}[{n}]": text for n, text in enumerate(result)}
        return tuple(map(Fields(named, self.place).text, named))

    def index(self, name: str, options: int) -> int:
        """An index of the right option, a number or the text of one (HellaSwag stores texts)."""
        result = self.value(name)
        if result in ("", -1, "-1"):
            raise InputError(
                f"{self.place}: {name!r} is hidden: this split has no labels, take another"
            )
        whole = str(result).strip().isdecimal() and not isinstance(result, bool)
        number = int(result) if whole else -1
        if not 0 <= number < options:
            raise InputError(
                f"{self.place}: {name!r} is {result!r}, but there are options 0 to {options - 1}: "
                f"{_ADVICE}"
            )
        return number

    def number(self, name: str) -> int:
        """A whole number."""
        result = self.value(name)
        if not isinstance(result, int) or isinstance(result, bool):
            raise self._other(name, result, "a whole number")
        return result

    def _other(self, name: str, value: object, kind: str) -> InputError:
        return InputError(f"{self.place}: {name!r} is {value!r:.80}, not {kind}: {_ADVICE}")
