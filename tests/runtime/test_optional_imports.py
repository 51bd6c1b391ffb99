import importlib.util
import sys

import pytest

from pipeline.runtime import optional_imports


def test_a_package_is_missing_for_a_while(monkeypatch):
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    with optional_imports.without("wave"), pytest.raises(ModuleNotFoundError, match="'wave'"):
        importlib.import_module("wave")
    assert importlib.import_module("wave").__name__ == "wave"


def test_who_asks_for_the_place_of_a_package_that_is_missing_goes_on(monkeypatch):
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    with optional_imports.without("wave"):
        assert importlib.util.find_spec("wave").origin is None


def test_a_package_that_is_imported_stays():
    with optional_imports.without("json"):
        assert importlib.import_module("json") is sys.modules["json"]
