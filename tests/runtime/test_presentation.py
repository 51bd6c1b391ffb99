import io

from pipeline.runtime import presentation


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colour_is_for_terminals(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert presentation.paint("x", "red", Terminal()) == "\x1b[31mx\x1b[0m"
    assert presentation.paint("x", "red", io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert presentation.paint("x", "red", Terminal()) == "x"
