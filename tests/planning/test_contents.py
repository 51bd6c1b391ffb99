import os

from pipeline.planning.file_contents import Contents
from pipeline.runtime import atomic_files


def test_a_digest_follows_bytes_and_names_and_not_times(tmp_path):
    a, b = tmp_path / "a.txt", tmp_path / "b.txt"
    a.write_text("one")
    b.write_text("two")
    known = Contents(tmp_path / "contents.json")
    first = known.digest("text", [str(a), str(b)])
    os.utime(a, (0, 0))
    assert known.digest("text", [str(a), str(b)]) == first
    a.write_text("two")
    os.utime(a, (0, 0))
    second = known.digest("text", [str(a), str(b)])
    assert len({first, second, known.digest("text", [str(a)]), known.digest("text", [str(b)])}) == 4
    a.write_text("one")
    assert known.digest("text", [str(a), str(b)]) == first


def test_a_file_is_hashed_once_until_it_is_written_to(tmp_path, monkeypatch):
    path, hashed = tmp_path / "a.txt", []
    path.write_text("one")
    real = atomic_files.sha256
    monkeypatch.setattr(atomic_files, "sha256", lambda path: hashed.append(path) or real(path))
    for _ in range(3):
        Contents(tmp_path / "contents.json").digest("text", [str(path)])
    assert hashed == [path]
    path.write_text("two")
    Contents(tmp_path / "contents.json").digest("text", [str(path)])
    assert hashed == [path, path]


def test_without_files_there_is_nothing_to_follow(tmp_path):
    known = Contents(tmp_path / "contents.json")
    assert known.digest("text", []) is None
    assert known.digest("text", [str(tmp_path / "gone.txt")]) is None
    assert not (tmp_path / "contents.json").exists()


def test_of_files_that_are_gone_the_last_digest_stands(tmp_path):
    path, memory = tmp_path / "a.txt", tmp_path / "contents.json"
    path.write_text("one")
    before = Contents(memory).digest("text", [str(path)])
    path.unlink()
    assert Contents(memory).digest("text", [str(path)]) == before
    assert Contents(memory).digest("other", [str(path)]) is None


def test_a_spoiled_memory_costs_time_and_no_truth(tmp_path):
    path, memory = tmp_path / "a.txt", tmp_path / "contents.json"
    path.write_text("one")
    expected = Contents(memory).digest("text", [str(path)])
    name = str(path.absolute())
    for spoiled in ("{", "[]", f'{{"{name}": 3}}', f'{{"{name}": []}}'):
        memory.write_text(spoiled)
        assert Contents(memory).digest("text", [str(path)]) == expected
