import json
import random
import re
import unicodedata

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pipeline.data.corpus_settings import is_held_out_from_training, text_hash
from pipeline.data.tokenizer import (
    Tokenizer,
    build_tokenizer,
    piece_ids_of_file,
    sample_training_texts,
)
from pipeline.runtime import atomic_files

WORDS = ["the", "a", "of", "token", "row", "domain", "step", "weight", "batch", "corpus", "model"]
TRAIN = {
    "kind": "train",
    "model": "unigram",
    "vocabulary": 60,
    "characters": 20_000,
    "newlines": True,
    "validation_share": 0.1,
}


def prose(seed, count=40):
    draw = random.Random(seed)
    return [
        "\n    ".join(" ".join(draw.choices(WORDS, k=8)) for _ in range(5)) for _ in range(count)
    ]


def make(folder, values, sources=(), name="tok"):
    atomic_files.write_json(folder / f"{name}-settings.json", values)
    build_tokenizer(folder / f"{name}-settings.json", list(sources), folder / f"{name}.model")
    return Tokenizer(folder / f"{name}.model")


@pytest.fixture(scope="module")
def source(tmp_path_factory, make_source):
    return make_source(tmp_path_factory.mktemp("sources") / "prose", prose(0))


@pytest.fixture(scope="module")
def exact(tmp_path_factory, source):
    """A tokenizer that keeps white space."""
    return make(tmp_path_factory.mktemp("tokenizer"), TRAIN, [source])


@pytest.mark.parametrize("model", ["unigram", "bpe", "char"])
def test_texts_come_back_and_training_again_gives_the_same_bytes(tmp_path, source, model):
    tokenizer = make(tmp_path, {**TRAIN, "model": model}, [source])
    texts = ["the  row\n\n    of a batch\n", " model", "\n", "tokens"]
    assert [tokenizer.decode(tokens) for tokens in tokenizer.encode(texts)] == texts
    # In the place of another one.
    make(tmp_path, {**TRAIN, "model": model, "vocabulary": 50}, [source])
    again = make(tmp_path, {**TRAIN, "model": model}, [source])
    assert again.sha256 == tokenizer.sha256


@pytest.mark.slow
@settings(deadline=None)
@given(text=st.text(alphabet=sorted(set("".join(prose(0))))))
def test_every_text_of_known_characters_comes_back(exact, text):
    assert exact.decode(exact.encode([text])[0]) == text


def test_the_layout_is_that_of_t5(exact):
    assert (exact.eos, exact.unknown) == (1, 2)
    assert exact.encode([""])[0].tolist() == []
    assert exact.encode(["\u0905"])[0].tolist()[-1] == exact.unknown
    # The name of the end in a text is text: nobody can forge the end of a document.
    assert exact.eos not in exact.encode(["a</s>b"])[0]
    assert exact.encode(["a row"])[0].dtype == np.int32
    line, both, other = exact.encode(["\n", "a\nb", "a"])
    assert len(line) == 1
    assert line[0] in both
    assert line[0] not in other


def test_without_newlines_white_space_collapses_as_in_t5(tmp_path, source):
    tokenizer = make(tmp_path, {**TRAIN, "newlines": False}, [source])
    assert tokenizer.decode(tokenizer.encode(["the\nrow  of\n\n a"])[0]) == "the row of a"


@pytest.mark.parametrize(
    ("model", "newlines"), [("unigram", True), ("bpe", True), ("char", True), ("char", False)]
)
def test_line_ends_that_the_texts_hold_come_back(tmp_path, make_source, model, newlines):
    texts = [text.replace("\n", "\r\n") for text in prose(0)]
    source = make_source(tmp_path / "windows", texts)
    values = {**TRAIN, "model": model, "newlines": newlines}
    tokenizer = make(tmp_path, values, [source])
    given = [*texts[:3], "the\r\n\r\nrow", "a\rrow\n"]
    ids = tokenizer.encode(given)
    assert not any((one == tokenizer.unknown).any() for one in ids)
    assert [tokenizer.decode(one) for one in ids] == given
    assert len(tokenizer.encode(["\r\n"])[0]) == 2


def test_of_texts_without_line_ends_the_model_is_what_it_was(tmp_path, make_source):
    source = make_source(tmp_path / "lines", ["abc", "cab"])
    values = {**TRAIN, "model": "char", "vocabulary": 6, "newlines": False}
    # Three letters and the special pieces.
    tokenizer = make(tmp_path, {**values, "validation_share": 0}, [source])
    assert tokenizer.vocabulary == 6
    assert tokenizer.encode(["\n"])[0].tolist() == [tokenizer.unknown]


def test_char_models_give_one_token_a_symbol(tmp_path, make_source):
    draw = random.Random(0)
    texts = ["".join(chr(draw.randrange(0x4E00, 0x4E40)) for _ in range(50)) for _ in range(60)]
    folder = make_source(tmp_path / "language", texts)
    values = {**TRAIN, "model": "char", "vocabulary": 100, "newlines": False}
    tokenizer = make(tmp_path, values, [folder])
    encoded = tokenizer.encode(texts)
    assert {len(tokens) for tokens in encoded} == {50}
    assert not any((tokens == tokenizer.unknown).any() for tokens in encoded)
    assert [tokenizer.decode(tokens) for tokens in encoded] == texts
    # 64 characters and 3 special pieces.
    with pytest.raises(InputError, match=r"64 different characters.* need 67, not 66: raise it"):
        make(tmp_path, {**values, "vocabulary": 66}, [folder])
    fewest = make(tmp_path, {**values, "vocabulary": 67}, [folder])
    assert not any((tokens == fewest.unknown).any() for tokens in fewest.encode(texts))


def test_the_manifest_says_what_was_made(tmp_path, source):
    tokenizer = make(tmp_path, TRAIN, [source])
    manifest = atomic_files.read_json(tmp_path / "tok.json")
    assert (manifest["stage"], manifest["settings"]) == ("tokenizer", TRAIN)
    assert manifest["sha256"] == atomic_files.sha256(tmp_path / "tok.model") == tokenizer.sha256
    assert manifest["vocabulary"] == tokenizer.vocabulary <= 60
    assert manifest["sentencepiece"] == sentencepiece.__version__
    (read,) = manifest["inputs"].values()
    assert read == atomic_files.sha256(source / "manifest.json")
    assert 0 < manifest["training_characters"]["prose"] <= 20_000


@pytest.mark.parametrize("normalisation", [None, "NFC"])
def test_validation_documents_are_not_trained_on(tmp_path, make_source, normalisation):
    # An e with an accent of its own, which NFC makes one character: what is packed tells.
    texts = [f"cafe\u0301 number {n}" for n in range(200)]
    folder = make_source(tmp_path / "source", texts)
    packed = [unicodedata.normalize(normalisation or "NFD", text) for text in texts]
    pairs = zip(texts, packed, strict=True)
    trained = {text for text, made in pairs if not is_held_out_from_training(text_hash(made), 0.3)}
    assert 100 < len(trained) < 180
    assert set(sample_training_texts(folder, 10**6, 0.3, normalisation)) == trained


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=30),
    characters=st.integers(1, 300),
    seed=st.randoms(use_true_random=False),
)
def test_a_sample_is_the_first_characters_in_the_order_of_hashes(
    tmp_path_factory, make_source, lengths, characters, seed
):
    texts = [chr(97 + n % 26) * length for n, length in enumerate(lengths)]
    in_order = "".join(sorted(texts, key=text_hash))
    seed.shuffle(texts)
    folder = make_source(tmp_path_factory.mktemp("property") / "source", texts)
    assert "".join(sample_training_texts(folder, characters, 0.0)) == in_order[:characters]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([" \n"], r"tokenizers\.tok: no training text in \{'empty'"),
        (prose(0), r"tokenizers\.tok: SentencePiece cannot make 8 unigram"),
    ],
)
def test_too_little_text_or_vocabulary_is_an_error(tmp_path, make_source, texts, message):
    folder = make_source(tmp_path / "empty", texts)
    with pytest.raises(InputError, match=message) as raised:
        make(tmp_path, {**TRAIN, "vocabulary": 8}, [folder])
    assert not (tmp_path / "tok.model").exists()
    if enough := re.search(r"raise `vocabulary` to (\d+) or more", str(raised.value)):
        assert make(tmp_path, {**TRAIN, "vocabulary": int(enough[1])}, [folder]).vocabulary > 8
    else:
        assert "no training text" in message


def test_a_given_model_is_copied(tmp_path, exact):
    values = {"kind": "file", "path": str(exact.path), "sha256": exact.sha256.upper()}
    assert make(tmp_path, values).sha256 == exact.sha256


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "file", "path": "nowhere.model"}, r"tokenizers\.tok\.path: nowhere\.model does"),
        (
            {"kind": "file", "path": __file__, "sha256": "0" * 64},
            r"tokenizers\.tok\.sha256: .*, not 00",
        ),
        ({"kind": "file", "path": __file__}, "is not a SentencePiece model"),
        ({"kind": "files"}, "kind: 'files' is unknown: did you mean 'file'"),
        ({}, "kind is missing: one of file, hub, train"),
        ({**TRAIN, "model": "word"}, "'word' is not one of 'unigram'"),
    ],
)
def test_wrong_settings_are_named(tmp_path, values, message):
    with pytest.raises(InputError, match=message):
        make(tmp_path, values)


def test_a_model_without_an_end_is_refused(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(prose(0)[:5]),
        model_prefix=str(tmp_path / "endless"),
        vocab_size=60,
        hard_vocab_limit=False,
        eos_id=-1,
        minloglevel=2,
    )
    with pytest.raises(InputError, match="no end-of-sentence"):
        make(tmp_path, {"kind": "file", "path": str(tmp_path / "endless.model")})


def test_neither_model_nor_manifest_replaces_what_is_read(tmp_path, exact):
    given_settings = tmp_path / "tok.json"
    given_settings.write_text(json.dumps({"kind": "file", "path": str(exact.path)}))
    for out, message in (
        (tmp_path / "tok.model", r"tok\.json is, holds or lies in the input .*tok\.json"),
        (tmp_path / "t.json", r"t\.json would be the model and its manifest: give --out a"),
        (tmp_path / "..", "has no name of its own"),
        (exact.path, "lies in the input"),
    ):
        with pytest.raises(InputError, match=message):
            build_tokenizer(given_settings, [], out)
    assert json.loads(given_settings.read_text())["kind"] == "file"


def test_bytes_that_are_no_model_are_told(tmp_path, exact):
    given = tmp_path / "given.model"
    values = {"kind": "file", "path": str(given)}
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(exact.path))
    piece = max((pieces.id_to_piece(n) for n in range(3, exact.vocabulary)), key=len)
    spoilt = exact.path.read_bytes().replace(piece.encode(), b"\xff" * len(piece.encode()), 1)
    no_text = r"given\.model is damaged: piece \d+ is not UTF-8"
    no_model = "is not a SentencePiece model"
    contents = [(spoilt, no_text), *((c, no_model) for c in (b"", b"\0" * 9, b"\xff" * 9))]
    contents.append((b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS"))
    for content, message in contents:
        given.write_bytes(content)
        with pytest.raises(InputError, match=rf"tokenizers\.tok\.path: .*{message}"):
            make(tmp_path, values)
        for reader in (Tokenizer, piece_ids_of_file):
            with pytest.raises(InputError, match=message):
                reader(given)
    given.unlink()
    with pytest.raises(InputError, match=r"given\.model does not exist"):
        Tokenizer(given)
