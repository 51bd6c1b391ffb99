"""On a toy package: a copy of the module fingerprints the packages of its own root."""

import importlib.util
import json
import re

import edits
import pytest
from repository import git

from pipeline.runtime import checksums, code_fingerprint

TOY = {
    "__init__.py": '"""A toy."""\n',
    "stage.py": "from toy import part\nfrom toy.deep import leaf\n\n\ndef work():\n    return 1\n",
    "part.py": "import json\n\nLIMIT = 0\n",
    "deep/__init__.py": "TABLE = ['leaf']\n",
    "deep/leaf.py": "def f():\n    from toy import late\n    return late\n",
    "late.py": "if TYPE_CHECKING:\n    from toy import other\n\nX = 1\n",
    "other.py": "X = 2\n",
    "sql/query.sql": "select 1\n",
}


def write(folder, changes=()):
    for name, content in {**TOY, **dict(changes)}.items():
        edits.put(name, content)(folder / "toy")
    spec = importlib.util.spec_from_file_location("toy_code", code_fingerprint.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.PACKAGE, module.FIRST_PARTY = folder / "toy", ("toy",)
    module.MEMORY = folder / "__pycache__" / "code.json"
    return module


def test_a_fingerprint_covers_what_is_imported_also_inside_functions_but_not_for_types_alone(
    tmp_path,
):
    closure = write(tmp_path).import_closure("toy.stage")
    assert closure == {"toy.stage", "toy.part", "toy.deep.leaf", "toy.late"}


CODE = [
    ("stage.py", "return 1", "return 2"),
    *(("part.py", "LIMIT = 0", f"LIMIT = {value}") for value in ("False", "''", "0.0", "None")),
    ("part.py", "LIMIT = 0", "limit = 0"),
    ("deep/leaf.py", "return late", "return late.X"),
    *(("late.py", "X = 1", f"X = {value}") for value in ("'one'", "-1")),
    ("stage.py", "def work()", "def work(a, *, b=1)"),
    ("stage.py", "return 1", "return f'{1}'"),
]
NO_CODE = [
    ("stage.py", "from toy import part", '"""Documented."""\n# A comment.\n\nfrom toy import part'),
    ("stage.py", "    return 1", '    """Said."""\n\n    return (1)'),
    ("part.py", "LIMIT = 0", 'LIMIT = 0\n"""Said behind it."""'),
    ("part.py", "LIMIT = 0", "if TYPE_CHECKING:\n    import typing\nLIMIT = 0"),
    ("deep/__init__.py", "'leaf'", "'leaf', 'another'"),
    ("other.py", "X = 2", "X = 3"),
    ("sql/query.sql", "1", "2"),
]


@pytest.mark.parametrize(("name", "old", "new"), CODE + NO_CODE)
def test_code_counts_and_words_layout_tables_and_strangers_do_not(tmp_path, name, old, new):
    assert old in TOY[name]
    before = write(tmp_path / "before").fingerprint("toy.stage")
    after = write(tmp_path / "after", {name: TOY[name].replace(old, new)}).fingerprint("toy.stage")
    assert (after != before) == ((name, old, new) in CODE)


def test_what_was_read_is_remembered_while_the_file_is_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(checksums, "RECENT", -1)
    before = write(tmp_path).fingerprint("toy.stage")
    again = write(tmp_path, {"other.py": "X = 5\n"})
    sound = json.loads(again.MEMORY.read_text())
    part = str(tmp_path / "toy/part.py")
    assert sound[part][-1].split()[1:] == ["json"]
    (tmp_path / "toy/late.py").write_text("X = 3\n")
    assert again.fingerprint("toy.stage") != before
    for entry in ([], ["x"], 5, None, sound[part][:-1], [*sound[part][:-1], 5]):
        damaged = {**sound, part: entry}
        for content in (json.dumps(damaged), json.dumps([entry]), "[", "[" * 10**5, "9" * 5000):
            again.MEMORY.write_text(content)
            assert write(tmp_path).fingerprint("toy.stage") == before
    again.MEMORY.write_bytes(b"\xff")
    assert write(tmp_path).fingerprint("toy.stage") == before


def test_files_that_are_not_python_have_a_fingerprint_of_their_own(tmp_path):
    def of(name, changes=()):
        return write(tmp_path / name, changes).fingerprint("toy.part", assets=("sql",))

    before = of("before")
    assert before.startswith(write(tmp_path / "code").fingerprint("toy.part") + "-")
    assert of("same") == before
    assert of("changed", {"sql/query.sql": "select 2"}) != before
    assert of("named", {"sql/more.sql": ""}) != before


def test_without_git_or_in_another_repository_there_is_no_commit(tmp_path):
    inner = tmp_path / "site-packages"
    assert write(inner).current_commit() is None
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "theirs")
    assert write(inner).current_commit() is None
    git(inner, "init", "-q")
    git(inner, "add", "toy")
    git(inner, "commit", "-q", "-m", "ours")
    assert re.fullmatch("[0-9a-f]{40}", write(inner).current_commit())


@pytest.mark.parametrize(
    "source",
    [
        "from pike_mixing import PiKE\n",
        "import pike_mixing\nclass Mine(pike_mixing.PiKE): pass\n",
        "import pike_mixing as library\nclass Mine(library.PiKE): pass\n",
        "import pike_mixing.torch\npike_mixing.torch.PerDomainAdamW\n",
    ],
)
def test_a_name_that_a_package_hands_on_is_of_its_module(own_modules, source):
    (own_modules / "handed.py").write_text(source)
    closure = code_fingerprint.import_closure("handed")
    place = "torch.per_domain_adamw" if "torch" in source else "rules.pike"
    assert f"pike_mixing.{place}" in closure
    # What the package hands on beside it is not.
    assert not closure & {"pike_mixing.rules.static", "pike_mixing.torch.mixed_dataset"}
