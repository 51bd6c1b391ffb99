import mmap

import pytest

from pipeline.data import mapped_pages


@pytest.mark.parametrize(
    ("start", "stop"),
    [(0, 1), (1, 2), (mmap.PAGESIZE - 1, mmap.PAGESIZE + 1), (0, 3 * mmap.PAGESIZE + 5)],
)
def test_bytes_anywhere_in_a_file_can_be_asked_for(tmp_path, start, stop):
    content = bytes(range(256)) * (3 * mmap.PAGESIZE // 256) + b"12345"
    (tmp_path / "a.bin").write_bytes(content)
    file = mapped_pages.mapped(tmp_path / "a.bin")
    mapped_pages.ask_for(file, start, stop)
    assert file[start:stop] == content[start:stop]


def test_pages_that_are_there_are_not_waited_for(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"a" * mmap.PAGESIZE)
    file = mapped_pages.mapped(tmp_path / "a.bin")
    assert file[0] == ord("a")
    before = mapped_pages.waits()
    assert file[: mmap.PAGESIZE] == b"a" * mmap.PAGESIZE
    assert mapped_pages.waits() == before
