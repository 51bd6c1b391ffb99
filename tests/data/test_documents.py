from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pipeline.data import documents as store
from pipeline.runtime import atomic_files

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@pytest.mark.slow
@settings(deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=20), group=st.integers(1, 40))
def test_what_is_written_is_read(tmp_path_factory, make_source, texts, group):
    folder = tmp_path_factory.mktemp("property") / "source"
    with pytest.MonkeyPatch.context() as patch:
        # Small limits, so that texts fall into several groups and files.
        patch.setattr(store, "GROUP_BYTES", group)
        patch.setattr(store, "FILE_BYTES", 3 * group)
        make_source(folder, texts)
    assert [text for _, text in store.read(folder)] == texts


def test_big_sources_are_several_files(tmp_path, make_source, monkeypatch):
    monkeypatch.setattr(store, "GROUP_BYTES", 10)
    monkeypatch.setattr(store, "FILE_BYTES", 20)
    # Two texts of 10 bytes fill a file.
    folder = make_source(tmp_path / "source", ["0123456789"] * 5)
    assert len(list(folder.glob("documents-*.parquet"))) == 3
    assert len(list(store.read(folder))) == 5


def test_totals_count_characters_and_bytes(tmp_path):
    totals = store.write([store.Document("1", "aé"), store.Document("2", "अ")], tmp_path)
    # Two and one characters; 1 + 2 and 3 bytes.
    assert (totals.documents, totals.characters, totals.bytes) == (2, 3, 6)


def test_the_hash_tells_ids_and_texts_apart(tmp_path):
    def digest(*documents):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        return store.write([store.Document(*document) for document in documents], folder).sha256

    hashes = [
        digest(("1", "ab")),
        digest(("2", "ab")),
        digest(("1", "a"), ("", "b")),
        digest(("1", "ab"), ("1", "ab")),
    ]
    assert len(set(hashes)) == 4
    assert digest(("1", "ab")) == hashes[0]


def test_unfinished_documents_are_not_read(tmp_path, make_source):
    folder = make_source(tmp_path / "source", ["text"])
    (folder / atomic_files.MANIFEST).unlink()
    with pytest.raises(InputError, match="no finished documents"):
        store.manifest(folder)


def test_another_manifest_is_not_taken_for_documents(tmp_path):
    atomic_files.write_json(tmp_path / atomic_files.MANIFEST, {"stage": "pack"})
    with pytest.raises(InputError, match="not the manifest of the stage 'download'"):
        store.manifest(tmp_path)


def test_a_truncated_file_is_named(tmp_path, make_source):
    folder = make_source(tmp_path / "source", ["text"])
    path = folder / "documents-00000.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"documents-00000\.parquet has .* bytes, the manifest"):
        list(store.read(folder))
    path.unlink()
    with pytest.raises(InputError, match=r"documents-00000\.parquet is missing"):
        list(store.read(folder))


def test_a_damaged_file_is_named(tmp_path, make_source):
    folder = make_source(tmp_path / "source", ["text"])
    path = folder / "documents-00000.parquet"
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(InputError, match=r"documents-00000\.parquet cannot be read"):
        list(store.read(folder))


def test_a_full_disk_is_named(small_disk, monkeypatch):
    # Hashes do not compress: 1,000 of 64 digits in each text.
    documents = (
        store.Document(str(n), "".join(sha256(b"%d" % i).hexdigest() for i in range(n, n + 1000)))
        for n in range(0, 100_000, 1000)
    )
    monkeypatch.setattr(store, "GROUP_BYTES", 1)
    with pytest.raises(InputError, match=f"{small_disk} cannot be written.*No space left"):
        store.write(documents, small_disk)
