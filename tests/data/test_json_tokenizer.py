"""Tokenizers of `tokenizers`, which models continue with."""

import json

import numpy as np
import pytest
from test_tokenizer import make, prose

from pike_mixing.errors import InputError
from pipeline.data import tokenizer as built
from pipeline.data.json_tokenizer import piece_ids
from pipeline.evaluation.questions import word_start_mask
from pipeline.planning import planner
from pipeline.planning.job_estimates import JobEstimates
from pipeline.runtime import accelerators

# Two words and an end, as a tokenizer.json of a word-level model has them.
WORDS = {
    "version": "1.0",
    "added_tokens": [
        {"id": 5, "content": "<end>", "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
    ],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"?": 0, "row": 1, "step": 2}, "unk_token": "?"},
}  # fmt: skip


def given(folder, values=None, end="<end>", **changed):
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**WORDS, **(values or {})}), encoding="utf-8")
    return {"kind": "file", "path": str(path), "end": end, **changed}


@pytest.fixture
def byte_level(tmp_path):
    """A byte-level BPE, as most models of today have one: its file."""
    tokenizers = pytest.importorskip("tokenizers", reason="make setup EXTRAS=hf")
    fast = tokenizers.Tokenizer(tokenizers.models.BPE())
    fast.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=["</s>"], initial_alphabet=alphabet, show_progress=False
    )
    fast.train_from_iterator(prose(0), trainer)
    fast.save(str(tmp_path / "bytes.json"))
    return fast, {"kind": "file", "path": str(tmp_path / "bytes.json"), "end": "</s>"}


def test_ids_are_those_of_the_file(tmp_path):
    pytest.importorskip("tokenizers", reason="make setup EXTRAS=hf")
    tokenizer = make(tmp_path, given(tmp_path))
    # Ids go up to 5, though four pieces are named.
    assert (tokenizer.vocabulary, tokenizer.eos, tokenizer.unknown) == (6, 5, 0)
    ids = tokenizer.encode(["row step row", b"step other"])
    assert [one.tolist() for one in ids] == [[1, 2, 1], [2, 0]]
    assert ids[0].dtype == np.int32
    # The name of the end within a text is text.
    assert 5 not in tokenizer.encode(["row <end> row"])[0]
    facts = json.loads((tmp_path / "tok.json").read_text(encoding="utf-8"))
    assert facts["eos"] == 5
    assert "tokenizers" in facts


def test_a_unigram_model_names_the_place_of_its_unknown_piece(tmp_path):
    pytest.importorskip("tokenizers", reason="make setup EXTRAS=hf")
    unigram = {"type": "Unigram", "vocab": [["a", -1.0], ["?", 0.0]], "unk_id": 1}
    tokenizer = make(tmp_path, given(tmp_path, {"model": unigram}))
    assert (tokenizer.unknown, tokenizer.vocabulary) == (1, 6)
    assert tokenizer.encode(["ab"])[0].tolist() == [0, 1]


def test_no_text_can_forge_an_end(tmp_path):
    pytest.importorskip("tokenizers", reason="make setup EXTRAS=hf")
    # An end that is not called special is special all the same.
    ordinary = {"added_tokens": [{**WORDS["added_tokens"][0], "special": False}]}
    tokenizer = make(tmp_path, given(tmp_path, ordinary))
    assert tokenizer.encode(["row <end> row"])[0].tolist() == [1, 0, 0, 0, 1]
    assert tokenizer.decode([1, 5]) == "row"
    # Where it is one of the model's own pieces too, as in T5's file, there is no other way.
    own = {"type": "Unigram", "vocab": [["?", 0.0], ["a", -1.0], ["<end>", 0.0]], "unk_id": 0}
    added = {"added_tokens": [{**WORDS["added_tokens"][0], "id": 2}], "pre_tokenizer": None}
    unigram = make(tmp_path, given(tmp_path, {"model": own, **added}))
    assert unigram.encode(["aa"])[0].tolist() == [1, 1]
    with pytest.raises(InputError, match=r"end of '<end>' within the text 'aa<end>a': give the"):
        unigram.encode(["a", "aa<end>a"])


def test_texts_are_cut_as_their_library_cuts_them_and_come_back(tmp_path, byte_level):
    fast, values = byte_level
    tokenizer = make(tmp_path, values)
    texts = ["the  row\n\n    of a batch\n", "für 東京 ☃", *prose(1, 5)]
    ids = tokenizer.encode(texts)
    assert [one.tolist() for one in ids] == [fast.encode(text).ids for text in texts]
    assert [tokenizer.decode(one) for one in ids] == texts
    assert tokenizer.unknown is None
    starts_V = word_start_mask(tokenizer)
    assert starts_V[tokenizer.encode([" the"])[0][0]]
    assert not starts_V[tokenizer.eos]


@pytest.mark.parametrize(
    ("values", "changed", "message"),
    [
        ({}, {"end": None}, r"tokenizers\.tok\.end is missing: .* give the eos_token"),
        ({}, {"end": "</s>"}, r"tokenizers\.tok\.end: .* has no piece '</s>'"),
        ({"model": {}}, {}, r"has no model\.vocab"),
        ({"model": 5}, {}, r"has no model\.vocab"),
        ({"model": {"vocab": {"a": "b"}}}, {}, r"has no model\.vocab"),
        ({"added_tokens": [{"content": "a"}]}, {}, r"has no model\.vocab"),
        ({"model": {"type": "odd", "vocab": {}}}, {}, "tokenizers cannot read it"),
    ],
)
def test_a_file_that_says_too_little_is_refused(tmp_path, values, changed, message):
    if "cannot read" in message:
        pytest.importorskip("tokenizers", reason="make setup EXTRAS=hf")
    with pytest.raises(InputError, match=message):
        make(tmp_path, given(tmp_path, values, **changed))


DEEP = '{"model": ' + "[" * 200_000


@pytest.mark.parametrize(
    "content", ["{", "{}", '{"text": "a"}\n{"text": "b"}', '{"end": "a"}', DEEP], ids=range(5)
)
def test_a_model_file_of_something_else_is_refused(tmp_path, content):
    (tmp_path / "tok.model").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="is not a SentencePiece model, nor what"):
        built.Tokenizer(tmp_path / "tok.model")


def test_damaged_json_and_an_end_for_sentencepiece_are_refused(tmp_path, make_source):
    path = tmp_path / "tokenizer.json"
    for text in ('{"model": ', DEEP):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match="is not valid JSON"):
            make(tmp_path, {"kind": "file", "path": str(path), "end": "a"})
    source = make_source(tmp_path / "prose", prose(0))
    values = {"kind": "train", "model": "bpe", "vocabulary": 60, "characters": 5000}
    trained = make(tmp_path, {**values, "validation_share": 0.1}, [source])
    again = {"kind": "file", "path": str(trained.path), "end": "</s>"}
    with pytest.raises(InputError, match=r"end: a SentencePiece model has its own"):
        make(tmp_path, again, name="again")


def test_a_plan_counts_pieces_without_the_package(tmp_path, config, monkeypatch):
    unigram = {"type": "Unigram", "vocab": [["?", 0.0], ["a", -1.0]], "unk_id": 0}
    assert piece_ids({**WORDS, "model": unigram}) == {"?": 0, "a": 1, "<end>": 5}
    monkeypatch.setattr(built, "JsonPieces", None)
    values = config()
    values["results"] = str(tmp_path)
    values["tokenizers"]["installed"] = given(tmp_path)
    jobs = JobEstimates(
        planner.plan(values, "mine.yaml"), accelerators.accelerator_of_name("cpu"), 1
    )
    assert jobs.vocabulary_size("installed") == 6
