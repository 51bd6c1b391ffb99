"""Files appear whole or not at all, and no command loses what it did not make."""

import os
import sys

import pytest
from repository import run

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files


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
            partial.with_name(f"{partial.name}.wal").touch()
            raise error

    with pytest.raises(error):
        fail()
    assert old.read_text() == "old"
    assert names(tmp_path) == ["made"]
    assert kind == "file" or names(path) == ["inner"]


def test_removing_a_link_to_a_folder_leaves_the_folder(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    atomic_files.remove_path(tmp_path / "link")
    atomic_files.remove_path(tmp_path / "missing")
    assert names(tmp_path) == ["folder"]
    assert names(tmp_path / "folder") == ["file"]


def test_step_folders_come_in_the_order_of_their_numbers(tmp_path):
    for name in ("step10", "step9", "step0", "step100", "step9-copy", ".step3.17.part", "other"):
        (tmp_path / name).mkdir()
    assert list(atomic_files.step_entries(tmp_path)) == [0, 9, 10, 100]
    assert atomic_files.step_entries(tmp_path)[9] == tmp_path / "step9"
    assert atomic_files.step_entries(tmp_path / "missing") == {}


def test_a_digest_does_not_depend_on_the_order_of_keys():
    one, other = {"a": 1, "b": [1.5, None]}, {"b": [1.5, None], "a": 1}
    assert atomic_files.json_digest(one) == atomic_files.json_digest(other)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_json_cannot_say_is_refused(tmp_path, number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        atomic_files.write_json(tmp_path / "a.json", {"a": number})
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "content",
    [b'{"a": 1', b"\xff\xfe", b'{"a": NaN}', b"[" * 100_000],
    ids=["cut off", "not UTF-8", "NaN", "nested without end"],
)
def test_missing_and_broken_json_is_named_with_a_way_out(tmp_path, content):
    with pytest.raises(InputError, match=r"a\.json does not exist: make it first"):
        atomic_files.read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json is not valid JSON .*: check the path; if"):
        atomic_files.read_json(tmp_path / "a.json")


# Outputs of stages. Places that no command writes to: tests/hostile/test_paths.py.


def make(path, content="made", stage="pack", inputs=()):
    """A folder with one file, as a stage makes it; with a suffix a file."""
    with atomic_files.atomic_write(path, stage, inputs) as partial:
        if path.suffix:
            partial.write_text(content)
        else:
            partial.mkdir()
            (partial / "shard.bin").write_text(content)
    return path


def refused(path, stage="pack", inputs=()):
    """The message by which a place is refused; nothing below the folder above it is changed."""
    above = path.absolute().parent
    before = {p: p.read_bytes() for p in above.rglob("*") if p.is_file()}
    with pytest.raises(InputError) as caught:
        make(path, "new", stage, inputs)
    assert {p: p.read_bytes() for p in above.rglob("*") if p.is_file()} == before
    return str(caught.value)


@pytest.mark.parametrize("name", ["out", "out.md"])
def test_a_stage_replaces_what_it_made(tmp_path, name):
    make(tmp_path / name)
    again = make(tmp_path / name, "anew")
    assert (again / "shard.bin" if again.is_dir() else again).read_text() == "anew"


def test_an_empty_folder_is_free(tmp_path):
    (tmp_path / "out").mkdir()
    assert names(make(tmp_path / "out")) == [".made-by", "shard.bin"]


def test_files_of_one_folder_are_marked_side_by_side(tmp_path):
    for name, stage in (("a.md", "table"), ("a.svg", "figure")):
        make(tmp_path / name, stage=stage)
    make(tmp_path / "a.md", "anew", "table")
    refused(tmp_path / "a.md", "figure")
    refused(tmp_path / "a.svg", "table")


@pytest.mark.parametrize("mark", [b"", b"\xff\n", b"{}\n[]\n[1, 2]\n", b'["pack", "shard.b'])
def test_a_spoilt_mark_says_nothing(tmp_path, mark):
    (make(tmp_path / "out") / ".made-by").write_bytes(mark)
    assert "holds shard.bin" in refused(tmp_path / "out")


def test_a_link_in_the_place_of_a_mark_is_not_written_through(tmp_path):
    (tmp_path / "thesis.txt").write_text("years")
    (tmp_path / ".made-by").symlink_to("thesis.txt")
    assert ".made-by is a folder, a pipe or a link" in refused(tmp_path / "out.md", "table")
    (tmp_path / ".made-by").unlink()
    os.mkfifo(tmp_path / ".made-by")
    assert ".made-by is a folder, a pipe or a link" in refused(tmp_path / "out.md", "table")


def test_inputs_are_not_replaced_nor_written_into(tmp_path):
    source = make(tmp_path / "a" / "source")
    by_a_detour = source.parent / ".." / "a" / "source"
    for out in (source, source.parent, source / "new", by_a_detour):
        assert f"is, holds or lies in the input {source}" in refused(out, inputs=[source])
    # Beside it there is room.
    make(tmp_path / "a" / "other", inputs=[source])


KILLED = """
import os, pathlib, sys
from pipeline.runtime import atomic_files
with atomic_files.atomic_write(pathlib.Path(sys.argv[1]), "pack") as partial:
    partial.mkdir()
    (partial / "half").touch()
    partial.with_name(f"{partial.name}.wal").touch()
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    done = run(sys.executable, "-c", KILLED, tmp_path / "out")
    assert done.returncode == -9
    assert len(names(tmp_path)) == 3
    theirs = [".out.x.part", ".other.12.part", "out.12.part", ".out2.12.part"]
    for name in theirs:
        (tmp_path / name).touch()
    make(tmp_path / "out")
    assert names(tmp_path) == sorted([*theirs, "out"])


def test_what_a_living_process_makes_is_its_own(tmp_path):
    with atomic_files.atomic_write(tmp_path / "out.md", "table") as partial:
        partial.write_text("first")
        told = pytest.raises(InputError, match="is being made by another process: wait")
        with told, atomic_files.atomic_write(tmp_path / "out.md", "table"):
            pass
    assert (tmp_path / "out.md").read_text() == "first"
    assert names(tmp_path) == [".made-by", "out.md"]


def test_what_comes_into_the_place_meanwhile_is_left_alone(tmp_path):
    def work():
        with atomic_files.atomic_write(tmp_path / "out.md", "table") as partial:
            partial.write_text("new")
            (tmp_path / "out.md").write_text("thesis")

    with pytest.raises(InputError, match="is there already"):
        work()
    assert (tmp_path / "out.md").read_text() == "thesis"
