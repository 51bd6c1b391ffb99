import contextlib
import glob
import os
from pathlib import Path

import edits
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pipeline.runtime import file_patterns


def grown(root):
    for name in ("a.txt", "b/a.txt", "b/c/a.txt", "b/c/d.json", ".hidden/a.txt", "b/.a.txt"):
        edits.put(name)(root)
    return root


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return grown(tmp_path)


PARTS = st.lists(st.sampled_from(["**", "*", "b", "c", "a.txt", "*.txt", "[ab]*", "a**", "d.*"]))


@pytest.mark.slow
@settings(deadline=None)
@given(parts=PARTS, absolute=st.booleans())
def test_without_loops_it_finds_the_files_that_glob_finds(tmp_path_factory, parts, absolute):
    root = grown(tmp_path_factory.getbasetemp() / "tree")
    (root / "e").is_symlink() or (root / "e").symlink_to("b")
    pattern = "/".join(parts[:5])
    pattern = f"{root}/{pattern}" if absolute else pattern
    with contextlib.chdir(root):
        matches = glob.glob(pattern, recursive=True)  # noqa: PTH207
        # Of "a.txt/**" glob makes "a.txt/".
        found = {name for name in matches if Path(name).is_file() and not name.endswith("/")}
        assert file_patterns.files_of_pattern(pattern) == sorted(found)


def test_links_to_a_folder_within_itself_give_no_file_twice(here):
    (here / "b" / "up").symlink_to("..")
    (here / "b" / "also-up").symlink_to("..")
    (here / "self").symlink_to(".")
    (here / "loop").symlink_to("loop")
    found = ["a.txt", "b/a.txt", "b/c/a.txt"]
    # Sixty of them cross the same folders as one, also where each must go on by a folder.
    for crossed in ("**/", "**/" * 60):
        assert file_patterns.files_of_pattern(f"{crossed}a.txt") == found
    assert file_patterns.files_of_pattern("**/*/" * 60 + "a.txt") == []


def test_a_file_under_two_spellings_is_one(here):
    patterns = ["b/a.txt", "./b/*.txt", str(here / "b" / "**")]
    found = file_patterns.files_in_pattern_order(patterns, "files")
    assert found == ["b/a.txt", f"{here}/b/c/a.txt", f"{here}/b/c/d.json"]


def test_a_file_of_exactly_that_name_is_taken(here):
    for name in ("d [v1]/1.txt", "d v/1.txt", "d 1/1.txt"):
        edits.put(name)(here)
    assert file_patterns.files_of_pattern("d [v1]/1.txt") == ["d [v1]/1.txt"]
    assert file_patterns.files_of_pattern("d [v1]/*.txt") == ["d 1/1.txt", "d v/1.txt"]


def test_folders_pipes_and_devices_are_no_files(here):
    os.mkfifo(here / "pipe.txt")
    (here / "zero.txt").symlink_to("/dev/zero")
    (here / "folder.txt").mkdir()
    assert file_patterns.files_of_pattern("*.txt") == ["a.txt"]
    assert file_patterns.files_of_pattern("pipe.txt") == file_patterns.files_of_pattern("b") == []


def test_links_to_what_is_not_there_are_told(here):
    (here / "gone.txt").symlink_to("nowhere.txt")
    assert file_patterns.files_of_pattern("*.txt") == ["a.txt"]
    with pytest.raises(InputError, match=r"no file .*: it is a link to nowhere.txt, which is not"):
        file_patterns.files_in_pattern_order(["gone.txt"], "files")
    (here / "b" / "big.txt").symlink_to("../.git/annex/objects/x1/SHA256E-s9--0.txt")
    with pytest.raises(InputError, match=r"b/big.txt is a link of git-annex .*annex get b/big.txt"):
        file_patterns.files_of_pattern("**/*.txt")
    with pytest.raises(InputError, match=r"no file matches 'aaa.*: no name is longer"):
        file_patterns.files_in_pattern_order(["a" * 300], "files")


def test_a_name_that_is_not_utf8_is_told(here):
    (here / os.fsdecode(b"ab\xe9.txt")).touch()
    with pytest.raises(InputError, match=r"ab\\udce9\.txt' is not UTF-8: rename it"):
        file_patterns.files_of_pattern("*")
    assert file_patterns.files_of_pattern("a.*") == ["a.txt"]
