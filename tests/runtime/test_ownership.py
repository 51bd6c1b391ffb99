"""No command may lose what it did not make."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files

ROOT = Path(__file__).resolve().parents[2]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


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


def test_a_folder_of_somebody_is_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years")
    told = refused(tmp_path / "out")
    assert "out holds thesis.txt, and no .made-by there says that `pike pack` made it" in told
    assert told.endswith("give another --out, or move it away")


def test_an_empty_folder_is_free(tmp_path):
    (tmp_path / "out").mkdir()
    assert names(make(tmp_path / "out")) == [".made-by", "shard.bin"]


@pytest.mark.parametrize("name", ["out", "out.md"])
def test_what_another_stage_made_is_left_alone(tmp_path, name):
    make(tmp_path / name)
    assert "says that `pike theory` made it" in refused(tmp_path / name, "theory")


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


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    (tmp_path / "mine").mkdir()
    assert "mine is a folder, and `pike table` makes a file" in refused(tmp_path / "mine", "table")
    assert names(tmp_path) == ["mine"]


def test_a_place_below_a_link_to_itself_is_named(tmp_path):
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(InputError, match="link"):
        make(tmp_path / "link" / "out")


@pytest.mark.parametrize("target", ["folder", "file.md", "missing"])
def test_nothing_is_written_through_a_link(tmp_path, target):
    make(tmp_path / "folder")
    make(tmp_path / "file.md")
    (tmp_path / "link").symlink_to(target)
    assert "link is a symbolic link" in refused(tmp_path / "link")
    assert names(tmp_path) == [".made-by", "file.md", "folder", "link"]


def test_a_link_in_the_place_of_a_mark_is_not_written_through(tmp_path):
    (tmp_path / "thesis.txt").write_text("years")
    (tmp_path / ".made-by").symlink_to("thesis.txt")
    assert "a symbolic link is in its place" in refused(tmp_path / "out.md")


@pytest.mark.parametrize("name", [".", "..", "/", "sub/.."])
def test_a_place_without_a_name_is_refused(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="has no name of its own"):
        make(Path(name))
    assert names(tmp_path) == []


def test_inputs_are_not_replaced_nor_written_into(tmp_path):
    source = make(tmp_path / "a" / "source")
    by_a_detour = source.parent / ".." / "a" / "source"
    for out in (source, source.parent, source / "new", by_a_detour):
        assert f"is, holds or lies in the input {source}" in refused(out, inputs=[source])
    # Beside it there is room.
    make(tmp_path / "a" / "other", inputs=[source])


KILLED = """
import os, pathlib, sys
from pipeline.runtime import atomic_files as files
path = pathlib.Path(sys.argv[1])
with files.atomic_write(path, "pack") as partial:
    partial.mkdir(exist_ok=True)
    (partial / "half").touch()
    partial.with_name(f"{partial.name}.wal").touch()
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, tmp_path / "out"], cwd=ROOT, check=False)
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


def test_a_failure_leaves_nothing_of_a_file_and_its_companions(tmp_path):
    def fail():
        with atomic_files.atomic_write(tmp_path / "pike.duckdb", "database") as partial:
            partial.touch()
            partial.with_name(f"{partial.name}.wal").touch()
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert names(tmp_path) == []


def test_what_comes_into_the_place_meanwhile_is_left_alone(tmp_path):
    def work():
        with atomic_files.atomic_write(tmp_path / "out.md", "table") as partial:
            partial.write_text("new")
            (tmp_path / "out.md").write_text("thesis")

    with pytest.raises(InputError, match="is there already"):
        work()
    assert (tmp_path / "out.md").read_text() == "thesis"


def test_a_file_system_without_locks_takes_what_is_made(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    make(tmp_path / "out")
