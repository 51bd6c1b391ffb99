import subprocess
import sys

import pytest

from pike_mixing.finders import build_finder


def test_the_fingerprint_is_of_the_finder_too():
    assert build_finder.finder_module("best") == "pike_mixing.finders.best_run"


@pytest.mark.parametrize(("finder", "package"), [("regmix", "lightgbm"), ("mixing-law", "scipy")])
def test_a_missing_package_is_named_with_its_extra(finder, package):
    # None in sys.modules is how Python itself marks a module that cannot be imported.
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from pike_mixing.finders import build_finder\n"
        f"build_finder.build_finder({finder!r}, {{}}, 'here')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("pike_mixing.errors.InputError"), done.stderr
    assert f"needs the package {package!r}, which is not installed" in last
    assert "make setup EXTRAS=finders" in last
