import io
import json

import pytest

from pipeline.runtime import presentation


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colour_is_for_terminals(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert presentation.painted("x", "red", Terminal()) == "\x1b[31mx\x1b[0m"
    assert presentation.painted("x", "red", io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert presentation.painted("x", "red", Terminal()) == "x"


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("csv", "a,b\n1,\n2,x"),
        ("text", "words"),
        ("json", [{"a": 1, "b": None}, {"a": 2, "b": "x"}]),
    ],
)
def test_facts_are_shown_in_each_format(format, expected):
    facts = [{"a": 1, "b": None}, {"a": 2, "b": "x"}]
    shown = presentation.shown(format, facts, lambda: "words")
    assert (json.loads(shown) if format == "json" else shown) == expected
