"""Small corpora and sources written by hand."""

import hand_corpora
import pytest

from pipeline.data import document_store as store
from pipeline.data import packing, tokenizer
from pipeline.runtime import atomic_files, made_from


def write_corpus(folder, train, validation=(1, 1), *, shard_tokens=2**20, vocabulary=100, eos=1):
    """A corpus of the given token ids, one document a split."""
    streams = {"train": train, "validation": validation, "search": (1, 1)}
    splits = {name: (tokens, [(len(tokens), 0, 0)]) for name, tokens in streams.items()}
    sizes = {"vocabulary": vocabulary, "eos": eos, "shard_tokens": shard_tokens}
    return hand_corpora.write(folder, splits, **sizes)


def write_source(folder, texts, *, entropy=None):
    """A downloaded source of the given texts."""
    folder.mkdir(parents=True)
    documents = [store.Document(str(number), text) for number, text in enumerate(texts)]
    file = folder / "documents.parquet"
    facts = {
        **store.write_documents_and_return_facts(documents, file),
        "revision": "by hand",
        "licence": "CC0-1.0",
        "skipped": {"blank": 2},
        "entropy_nats_per_character": entropy,
    }
    made_from.InputSnapshot(store.STAGE, ["pipeline.data.document_store"]).write_manifest(
        folder / atomic_files.MANIFEST, settings={}, files=[file], facts=facts
    )
    return folder


@pytest.fixture(scope="session")
def make_corpus():
    return write_corpus


@pytest.fixture(scope="session")
def make_source():
    return write_source


@pytest.fixture(scope="session")
def letters(tmp_path_factory):
    """A tokenizer of one token a letter, of small and capital ones, an accent and punctuation."""
    folder = tmp_path_factory.mktemp("letters")
    write_source(folder / "source", ["abcdefgh ,.ABCDEFGH\u00e9"])
    values = {"model": "char", "vocabulary": 40, "characters": 100, "validation_share": 0}
    atomic_files.write_json(folder / "t.json", {"kind": "train", **values})
    tokenizer.build_tokenizer(folder / "t.json", [folder / "source"], folder / "letters.model")
    return folder / "letters.model"


@pytest.fixture
def packed(tmp_path, letters):
    """Packs texts with the tokenizer of letters; gives the corpus's folder."""

    def packed(texts, *, name="domain", entropy=None, **values):
        atomic_files.write_json(tmp_path / "packing.json", {"validation_share": 0.3, **values})
        source = tmp_path / "data" / name
        if not source.exists():
            write_source(source, texts, entropy=entropy)
        out = tmp_path / "corpora" / name
        packing.pack_corpus(tmp_path / "packing.json", source, letters, out, workers=1)
        return out

    return packed
