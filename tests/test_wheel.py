"""The wheel of the library: what it holds, and that NumPy is all that it needs."""

import importlib.metadata
import os
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from repository import ROOT, run

import pike_mixing

LIBRARY = ROOT / "pike_mixing"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    build = pytest.importorskip("hatchling.build", reason="make setup")
    folder = tmp_path_factory.mktemp("dist")
    before = Path.cwd()
    os.chdir(LIBRARY)
    try:
        return folder / build.build_wheel(str(folder))
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def alone(wheel, tmp_path_factory):
    """What Python prints where the wheel and NumPy are all that is installed."""
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    installed = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (installed / name).exists():
            (site / name).symlink_to(installed / name)

    def printed(*arguments, code=0):
        environment = {"PYTHONPATH": str(site), "PATH": os.environ["PATH"]}
        done = run(sys.executable, "-S", *arguments, cwd=site, env=environment)
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    return printed


@pytest.mark.slow
def test_the_wheel_holds_the_library_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {n for n in archive.namelist() if ".dist-info/" not in n}
        (licence,) = [n for n in archive.namelist() if n.endswith("/licenses/LICENSE")]
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
        metadata = archive.read(next(n for n in archive.namelist() if n.endswith("METADATA")))
        scripts = archive.read(
            next(n for n in archive.namelist() if n.endswith("entry_points.txt"))
        )
    assert "pike-mixing = pike_mixing.__main__:main" in scripts.decode().splitlines()
    modules = {p.relative_to(ROOT).as_posix() for p in LIBRARY.rglob("*.py")}
    swarms = {
        p.relative_to(ROOT).as_posix()
        for p in (LIBRARY / "swarms").iterdir()
        if p.is_file() and p.suffix != ".py"
    }
    others = (
        "mixtures/explorer.html",
        "mixtures/mixture_module.txt",
        "bench_board.json",
        "py.typed",
    )
    assert held == modules | swarms | {f"pike_mixing/{name}" for name in others}
    required = re.findall(r"^Requires-Dist: (.*)$", metadata.decode(), re.MULTILINE)
    assert [line for line in required if "extra ==" not in line] == ["numpy>=1.26"]
    assert f"\nVersion: {pike_mixing.__version__}\n" in metadata.decode()


@pytest.mark.slow
def test_the_librarys_page_runs_with_numpy_alone(alone, tmp_path):
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    check = "assert (alarms, zeta1 > 0) == ([], True)"
    (tmp_path / "page.py").write_text("\n".join([*blocks, check]), encoding="utf-8")
    alone(str(tmp_path / "page.py"))


@pytest.mark.slow
def test_every_public_name_is_imported_without_another_package(alone):
    code = (
        "import sys, pike_mixing\nfrom pike_mixing import *\n"
        "assert all(issubclass(kind, object) for kind in pike_mixing.METHODS.values())\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    others = set(alone("-c", code).split()) - set(sys.stdlib_module_names) - {"__main__"}
    assert others <= {"numpy", "pike_mixing"}


def test_there_is_one_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", pike_mixing.__version__)
    for project in (ROOT, LIBRARY):
        assert 'dynamic = ["version"]' in (project / "pyproject.toml").read_text(encoding="utf-8")
    assert importlib.metadata.version("pike") == pike_mixing.__version__


@pytest.mark.slow
def test_the_command_line_needs_numpy_alone(alone, tmp_path):
    (tmp_path / "s.csv").write_text(
        "weight/a,weight/b,loss/a\n1,0,2\n0.5,0.5,1\n", encoding="utf-8"
    )
    table = (str(tmp_path / "s.csv"), "--target", "a")
    assert "a       0.5000" in alone("-m", "pike_mixing", "fit", "best", *table)
    assert "first = 1000" in alone("-m", "pike_mixing", "methods", "ado")
    parquet = str(tmp_path / "s.parquet")
    for words, what, lacking, install in (
        (("try",), "try", "scipy", "scipy`, or name the extra: `uvx --from"),
        (("bench",), "bench", "scipy", "scipy`"),
        (("noise", "x"), "noise", "scipy", "scipy`"),
        (("fit", "regmix", *table), "the finder 'regmix'", "lightgbm", "lightgbm scipy` (for the"),
        (
            ("fit", "gaussian-process", *table),
            "the finder 'gaussian-process'",
            "scipy",
            "scipy scikit-learn` (for the clone's .venv: `make setup EXTRAS=finders`)",
        ),
        (("fit", "best", *table, "--at", "tokens=9"), "--at", "scipy", "scipy`"),
        (("fit", "best", parquet, "--target", "a"), f"{parquet}: Parquet", "pyarrow", "pyarrow`, "),
    ):
        said = f"{what} needs the package '{lacking}', which is not installed: run `pip install "
        assert said + install in alone("-m", "pike_mixing", *words, code=2)
