import subprocess
import sys

import pytest

from pike_mixing.errors import InputError
from pike_mixing.finders import registry


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(InputError, match="finder: 'mixing_law' is unknown: did you mean 'mixing-l"):
        registry.kind("mixing_law")
    with pytest.raises(InputError, match=r"options: 'smaples' is unknown: did you mean 'samples'"):
        registry.build("regmix", {"smaples": 3}, "options")


@pytest.mark.parametrize("finder", ["mixing-law", "regmix", "mde"])
def test_no_seed_is_negative(finder):
    with pytest.raises(InputError, match="seed: must not be negative"):
        registry.build(finder, {"seed": -1}, "--set")


def test_the_fingerprint_is_of_the_finder_too():
    assert registry.modules("best") == (
        "pipeline.training.find_mixture",
        "pike_mixing.finders.best",
    )


@pytest.mark.parametrize(("finder", "package"), [("regmix", "lightgbm"), ("mixing-law", "scipy")])
def test_a_missing_package_is_named_with_its_extra(finder, package):
    # None in sys.modules is how Python itself marks a module that cannot be imported.
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from pike_mixing.finders import registry\n"
        f"registry.build({finder!r}, {{}}, 'here')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("pike_mixing.errors.InputError"), done.stderr
    assert f"needs the package {package!r}, which is not installed" in last
    assert "make setup EXTRAS=finders" in last
