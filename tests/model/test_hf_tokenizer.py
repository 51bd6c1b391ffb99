"""A SentencePiece model and its `tokenizer.json` cut texts alike, whatever it was trained for."""

import itertools
import json

import pytest
import sentencepiece
from repository import ROOT

from pipeline.data import sources, tokenizer
from pipeline.runtime import atomic_files

pytest.importorskip("tokenizers")
fast_tokenizer = pytest.importorskip("pipeline.model.hf_folder")

SPACES = "\t\n\v\f\r\x1c\x85\u00a0\u2003\u2028\u3000\u200b▁"
FORMS = "{0}", "{0}a", "a{0}", "a{0}{0}b", " {0}a ", "a {0}"
ODD = [
    "",
    " ",
    "\n",
    "  lead",
    "trail  ",
    "a\n\n\tb",
    "Straße ﬁne \uff41\uff42 x²",
    "漢字 x 漢",
    "▁a ▁",
    *(form.format(c) for c in SPACES for form in FORMS),
]


@pytest.fixture(scope="module")
def texts():
    paragraphs = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")
    code = (ROOT / "pipeline/model/transformer.py").read_text(encoding="utf-8").split("\n\n")
    return [*paragraphs, *code, *ODD]


@pytest.fixture(scope="module")
def documents(tmp_path_factory, texts):
    """A folder of documents that hold the texts."""
    folder = tmp_path_factory.mktemp("documents")
    (folder / "all.txt").write_text("\n".join(texts * 3), encoding="utf-8")
    files = [str(folder / "all.txt")]
    chosen = {"kind": "local", "files": files, "documents": "2000 characters"}
    atomic_files.write_json(folder / "source.json", chosen)
    sources.download_source(folder / "source.json", folder / "texts")
    return folder / "texts"


@pytest.mark.parametrize("newlines", [False, True])
@pytest.mark.parametrize("model", ["unigram", "bpe", "char"])
def test_both_give_the_same_tokens_and_texts(tmp_path, documents, texts, model, newlines):
    wanted = {"kind": "train", "model": model, "vocabulary": 500, "characters": 100_000}
    wanted |= {"validation_share": 0.0, "newlines": newlines}
    (tmp_path / "settings.json").write_text(json.dumps(wanted), encoding="utf-8")
    tokenizer.build_tokenizer(tmp_path / "settings.json", [documents], tmp_path / "t.model")
    ours = tokenizer.Tokenizer(tmp_path / "t.model")
    fast = fast_tokenizer.convert_tokenizer(tmp_path / "t.model")
    assert fast.get_vocab_size() == ours.vocabulary
    scores = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "t.model"))
    for text, tokens in zip(texts, ours.encode(texts), strict=True):
        found = fast.encode(text).ids
        # Five blanks are four and one, or one and four: rounding decides between equal scores.
        if found != tokens.tolist():
            assert sum(map(scores.get_score, found)) == pytest.approx(
                sum(map(scores.get_score, tokens.tolist())), rel=1e-6
            ), text
            assert found.count(ours.unknown) == tokens.tolist().count(ours.unknown), text
        if ours.unknown not in tokens:
            for ids in (found, tokens.tolist()):
                assert fast.decode(ids, skip_special_tokens=False) == ours.decode(tokens)


@pytest.mark.parametrize("rule", ["nfkc", "identity", "nmt_nfkc"])
@pytest.mark.parametrize("model", ["unigram", "bpe"])
def test_models_of_others_keep_what_sentencepiece_keeps(tmp_path, texts, rule, model):
    path = tmp_path / "t.model"
    for trims, prefixes in itertools.product((True, False), repeat=2):
        with path.open("wb") as file:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter("\n".join(texts * 3).split("\n")),
                model_writer=file,
                model_type=model,
                vocab_size=500,
                hard_vocab_limit=False,
                normalization_rule_name=rule,
                remove_extra_whitespaces=trims,
                add_dummy_prefix=prefixes,
                minloglevel=2,
            )
        expected = sentencepiece.SentencePieceProcessor(model_file=str(path)).encode(ODD)
        found = fast_tokenizer.convert_tokenizer(path).encode_batch(ODD, add_special_tokens=False)
        assert [one.ids for one in found] == expected
