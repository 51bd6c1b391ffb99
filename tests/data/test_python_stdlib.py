import re
from collections import Counter
from importlib.metadata import version

import edits
import pytest
import yaml
from repository import ROOT

from pike_mixing.errors import InputError
from pipeline.data import python_stdlib
from pipeline.data.python_stdlib import code_modules_below

MODULE = '''"""About the module."""
import os  # a comment

# another comment


class Thing:
    """About the thing."""

    def method(self):
        """About the method.

            Indented.

        Not indented.
        """
        return "# no comment"


def only_documented():
    """About the function."""
'''


def documents(topic, count):
    found = python_stdlib.PythonSource(topic).read(Counter(), [])
    return [next(found) for _ in range(count)]


def write(folder, files):
    for name, text in files.items():
        edits.put(name, text)(folder)


@pytest.fixture
def library(tmp_path):
    write(tmp_path, {"b.py": MODULE, "a/z.py": "x = 1\n", "test/t.py": "y = 1\n"})
    write(tmp_path, {"blank.py": "# nothing\n", "broken.py": "def\n"})
    (tmp_path / "latin.py").write_bytes(b"# \xe9\n")
    return tmp_path


def test_code_has_no_docstrings_and_no_comments(library):
    skipped = Counter()
    found = dict(python_stdlib.read_code(code_modules_below(library), skipped))
    assert list(found) == ["a/z.py", "b.py", "blank.py"]
    assert found["a/z.py"] == "x = 1"
    assert found["b.py"] == (
        "import os\n\nclass Thing:\n\n    def method(self):\n        return '# no comment'\n\n"
        "def only_documented():\n    pass"
    )
    assert skipped == {"not Python": 1, "not UTF-8": 1}
    # Texts are files as they are.
    assert dict(python_stdlib.read_texts(code_modules_below(library / "test"), skipped)) == {
        "t.py": "y = 1\n"
    }


def test_docstrings_are_in_the_order_of_the_file(library):
    files = code_modules_below(library)
    found = dict(python_stdlib.read_whole_docstrings_by_module(files, Counter()))
    assert {name: text for name, text in found.items() if text} == {
        "b.py": "About the module.\n\nAbout the thing.\n\n"
        "About the method.\n\n    Indented.\n\nNot indented.\n\n"
        "About the function."
    }


@pytest.mark.slow
@pytest.mark.parametrize("topic", ["code", "docstrings", "reference", "tables"])
def test_every_python_has_the_topic_and_reads_it_alike(topic):
    first = documents(topic, 3)
    assert all(text.strip() for _, text in first)
    assert [name for name, _ in first] == sorted(name for name, _ in first)
    assert documents(topic, 3) == first


@pytest.mark.slow
def test_the_standard_library_is_free_of_tests_and_packages():
    names = [name for name, _ in python_stdlib.PythonSource("docstrings").read(Counter(), [])]
    assert "argparse.py" in names
    assert not [name for name in names if "/test/" in f"/{name}" or "site-packages" in name]
    assert not [name for name in names if name.startswith(("idlelib/", "lib2to3/", "encodings/"))]


def test_characters_are_named_64_a_document():
    found = list(python_stdlib.read_character_names())
    assert found[0][0] == "U+0020"
    assert found[0][1].startswith("0020 SPACE\n0021 EXCLAMATION MARK\n")
    assert {text.count("\n") for _, text in found[:-1]} == {63}
    whole = "\n".join(text for _, text in found)
    # Names that only repeat the code point, 70 % of all, are left out.
    assert "4E00 CJK UNIFIED IDEOGRAPH-4E00" not in whole
    assert "HANGUL SYLLABLE" not in whole
    assert "05D0 HEBREW LETTER ALEF" in whole


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """What is read, and what is left out, where the standard library has other tables."""
    monkeypatch.setattr(python_stdlib, "_STDLIB", tmp_path)

    def read(*texts, **values):
        write(tmp_path, {f"encodings/{n}.py": text for n, text in enumerate(texts)})
        skipped = Counter()
        found = python_stdlib.PythonSource("tables", **values).read(skipped, [])
        return [document.text for document in found], skipped

    return read


def test_blank_and_long_texts_are_left_out_and_counted(tables):
    assert tables(" ", "text") == (["text"], {"blank": 1})
    assert tables("fives", "six", max_characters=4) == (["six"], {"too long": 1})


def test_a_topic_that_this_python_lacks_is_named(tables):
    with pytest.raises(InputError, match=r"'tables': this Python .* lacks it: choose another"):
        tables()


@pytest.mark.parametrize(("topic", "licence"), [("code", "PSF-2.0"), ("unicode", "Unicode-3.0")])
def test_each_topic_has_its_licence_and_names_its_python(topic, licence):
    source = python_stdlib.PythonSource(topic)
    assert source.licence == licence
    assert re.fullmatch(r"CPython 3\..* documents abc", source.revision_facts("abc")["revision"])


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed distribution with a file of each kind."""
    files = {
        "thing/__init__.py": MODULE,
        "thing/part.pyi": "def part() -> int: ...\n",
        "thing/include/part.h": "int part(void);\n" * 10,
        "thing/README.md": "About the thing.\n",
        "thing-1.2.dist-info/licenses/LICENSE": "Do as you like.\n",
        "thing-1.2.dist-info/top_level.txt": "thing\n",
        "thing-1.2.dist-info/METADATA": "Name: thing\nVersion: 1.2\nLicense-Expression: MIT\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, "../bin/thing.txt"])
    write(tmp_path / "site", files | {"thing-1.2.dist-info/RECORD": record})
    monkeypatch.syspath_prepend(tmp_path / "site")
    return {"thing": "1.2"}


def test_files_of_an_installed_package_are_documents_by_kind(package, tmp_path):
    def names(topic, **values):
        source = python_stdlib.PythonSource(topic, package, **values)
        return [name for name, _ in source.read(Counter(), [])]

    assert names("code") == names("docstrings") == ["thing/__init__.py"]
    # Of a module what a person types and what Python answers; others have no examples.
    assert names("doctests") == []
    talk = ">>> def one():\n...     return 1\n>>> one()\n1\n"
    write(tmp_path, {"talk.py": f'"""Adds:\n\n{talk}\nNo more.\n"""'})
    read = python_stdlib.read_doctests_by_module([("talk.py", tmp_path / "talk.py")], Counter())
    assert [*read] == [("talk.py", talk)]
    assert names("stubs") == ["thing/part.pyi"]
    assert names("prose") == ["thing-1.2.dist-info/licenses/LICENSE", "thing/README.md"]
    # 160 characters, cut behind the last line break or blank among 70: 4 lines of 16.
    parts = [f"thing/include/part.h:{n}" for n in (1, 2, 3)]
    assert names("headers", documents="70 characters") == parts
    assert python_stdlib.PythonSource("stubs", package).licence == "thing: MIT"


def test_another_environment_is_told_by_name(package):
    wrong = {"thing": "1.3", "no-such-thing": "1"}
    with pytest.raises(
        InputError, match=r"thing 1\.2 is installed, not 1\.3; .*no-such-thing noth"
    ):
        list(python_stdlib.PythonSource("stubs", wrong).read(Counter(), []))
    # Names are compared as installers do.
    named = {"typing.extensions": version("typing_extensions")}
    assert python_stdlib.PythonSource("prose", named).licence.startswith("typing.extensions: ")
    source = python_stdlib.PythonSource("stubs", package, documents_sha256="a" * 64)
    assert source.revision_facts("a" * 64)["revision"] == f"thing 1.2 documents {'a' * 64}"
    capital = python_stdlib.PythonSource("stubs", package, documents_sha256="A" * 64)
    assert capital.revision_facts("a" * 64) == source.revision_facts("a" * 64)
    with pytest.raises(InputError, match=r"'stubs' of thing 1\.2 gives documents of SHA-256 bbb"):
        source.revision_facts("b" * 64)


def test_shipped_configurations_name_packages_as_the_set_up_installs_them():
    constraints = (ROOT / "constraints-cpu.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.lower().split("==") for line in constraints if "==" in line)
    named = {}
    for path in [ROOT / "config.yaml", *(ROOT / "workflow").rglob("*.yaml")]:
        sources = yaml.safe_load(path.read_text(encoding="utf-8")).get("sources") or {}
        for source in sources.values():
            named |= source.get("packages") or {}
    assert named
    # torch's own index adds the kind of build to the version: 2.13.0+cpu.
    versions = {name: version.partition("+")[0] for name, version in named.items()}
    assert versions == {name: pinned[name.lower()] for name in named}


@pytest.mark.parametrize(
    ("topic", "packages", "message"),
    [("stubs", None, "'stubs' is that of packages"), ("tables", {"a": "1"}, "have no 'tables'")],
)
def test_a_topic_without_files_is_named(topic, packages, message):
    assert message in python_stdlib.PythonSource(topic, packages).problems()[0]


def test_docstrings_are_found_in_blocks_of_every_kind(tmp_path):
    source = '''"""a"""
try:
    def f():
        """b"""
except ImportError:
    class C:
        async def g(self):
            """c"""
else:
    for _ in ():
        pass
    else:
        def h():
            """d"""
finally:
    match 1:
        case 1:
            with open("x"):
                def i():
                    """e"""
'''
    file = tmp_path / "module.py"
    file.write_text(source, encoding="utf-8")
    ((_, text),) = python_stdlib.read_whole_docstrings_by_module([("module.py", file)], Counter())
    assert text.split() == ["a", "b", "c", "d", "e"]
