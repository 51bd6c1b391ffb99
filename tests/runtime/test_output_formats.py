import io

from pipeline.runtime import output_formats


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colour_is_for_terminals(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert output_formats.colour_text("x", "red", Terminal()) == "\x1b[31mx\x1b[0m"
    assert output_formats.colour_text("x", "red", io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert output_formats.colour_text("x", "red", Terminal()) == "x"
