import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.data import document_store as store

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@pytest.mark.slow
@settings(deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=20), group=st.integers(1, 40))
def test_what_is_written_is_read(tmp_path_factory, make_source, texts, group):
    folder = tmp_path_factory.mktemp("property") / "source"
    with pytest.MonkeyPatch.context() as patch:
        # A small limit, so that texts fall into several groups.
        patch.setattr(store, "GROUP_BYTES", group)
        make_source(folder, texts)
    assert [text for _, text in store.read_training_documents(folder)] == texts


def test_the_hash_tells_ids_and_texts_apart(tmp_path):
    def digest(*documents):
        written = [store.Document(*document) for document in documents]
        return store.write_documents_and_return_facts(written, tmp_path / "some.parquet")[
            "documents_sha256"
        ]

    hashes = [
        digest(("1", "ab")),
        digest(("2", "ab")),
        digest(("1", "a"), ("", "b")),
        digest(("1", "ab"), ("1", "ab")),
    ]
    assert len(set(hashes)) == 4
    assert digest(("1", "ab")) == hashes[0]
