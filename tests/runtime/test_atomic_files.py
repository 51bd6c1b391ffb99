import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files

ROOT = Path(__file__).resolve().parents[2]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_at_the_end_of_the_block(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    with atomic_files.atomic_write(path) as partial:
        partial.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert names(path.parent) == ["file.txt"]


def test_a_folder_appears_whole_in_place_of_the_old_one(tmp_path):
    path = tmp_path / "folder"
    for content in ("first", "second"):
        with atomic_files.atomic_write(path) as partial:
            (partial / "inner").mkdir(parents=True)
            (partial / "inner" / content).write_text(content)
            assert not (path / "inner" / content).exists()
    assert names(path / "inner") == ["second"]
    assert names(tmp_path) == ["folder"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_an_error_leaves_the_old_one_and_nothing_beside_it(tmp_path, kind, error):
    path = tmp_path / "made"
    old = path / "inner" if kind == "folder" else path
    old.parent.mkdir(exist_ok=True)
    old.write_text("old")

    def fail():
        with atomic_files.atomic_write(path) as partial:
            half = partial / "half" if kind == "folder" else partial
            half.parent.mkdir(exist_ok=True)
            half.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert old.read_text() == "old"
    assert names(tmp_path) == ["made"]
    assert kind == "file" or names(path) == ["inner"]


@pytest.mark.parametrize("old", [None, "old"])
def test_a_process_that_dies_leaves_the_file_as_it_was(tmp_path, old):
    path = tmp_path / "file.txt"
    if old:
        path.write_text(old)
    code = (
        "import os, pathlib, sys\n"
        "from pipeline.runtime import atomic_files as files\n"
        "with files.atomic_write(pathlib.Path(sys.argv[1])) as partial:\n"
        "    partial.write_text('half')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], cwd=ROOT, check=False)
    assert done.returncode == -9
    assert (path.read_text() if path.exists() else None) == old


def test_removing_a_link_to_a_folder_leaves_the_folder(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    atomic_files.remove(tmp_path / "link")
    atomic_files.remove(tmp_path / "missing")
    assert names(tmp_path) == ["folder"]
    assert names(tmp_path / "folder") == ["file"]


def test_step_folders_come_in_the_order_of_their_numbers(tmp_path):
    for name in ("step10", "step9", "step0", "step100", "step9-copy", ".step3.17.part", "other"):
        (tmp_path / name).mkdir()
    assert list(atomic_files.steps(tmp_path)) == [0, 9, 10, 100]
    assert atomic_files.steps(tmp_path)[9] == tmp_path / "step9"
    assert atomic_files.steps(tmp_path / "missing") == {}


def test_a_digest_does_not_depend_on_the_order_of_keys():
    first, second = {"a": 1, "b": [1.5, None]}, {"b": [1.5, None], "a": 1}
    assert (
        atomic_files.canonical(first) == '{"a":1,"b":[1.5,null]}' == atomic_files.canonical(second)
    )
    assert atomic_files.digest(first) == hashlib.sha256(b'{"a":1,"b":[1.5,null]}').hexdigest()


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_json_cannot_say_is_refused(tmp_path, number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        atomic_files.digest({"a": number})
    with pytest.raises(ValueError, match="not JSON compliant"):
        atomic_files.write_json(tmp_path / "a.json", {"a": number})
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "content",
    [b'{"a": 1', b"", b"\xff\xfe", b'{"a": NaN}', b"[Infinity]", b"[" * 100_000],
    ids=["cut off", "empty", "not UTF-8", "NaN", "infinity", "nested without end"],
)
def test_broken_json_is_named_with_a_way_out(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json is not valid JSON .*: check the path; if"):
        atomic_files.read_json(tmp_path / "a.json")


def test_missing_json_is_named_with_a_way_out(tmp_path):
    with pytest.raises(InputError, match=r"a\.json does not exist: make it first"):
        atomic_files.read_json(tmp_path / "a.json")
