import dataclasses
import io

import numpy as np
import pytest
import sentencepiece

from pike_mixing.errors import InputError
from pipeline import settings
from pipeline.data.shards import Corpus
from pipeline.data.tokenizer import Tokenizer
from pipeline.evaluation.held_out_choices import Choice, FewShot
from pipeline.evaluation.questions import Evaluation, prepare_domains, word_start_mask
from pipeline.runtime import atomic_files
from pipeline.runtime.validate_settings import validate

ASKED = Evaluation(
    rows=30, batch_tokens=64, checkpoints="all", choice=Choice(items=20, context=5, candidate=4)
)


@pytest.fixture
def work(make_run):
    """Settings of a tiny run."""
    return validate(settings.Run, atomic_files.read_json(make_run()), "run.json")


@pytest.fixture(scope="session")
def tokenizer(corpora):
    return Tokenizer(corpora.parent / "symbols.model")


def test_each_domain_gets_windows_and_items(work, corpora, tokenizer):
    easy, hard = prepare_domains(ASKED, work, corpora, tokenizer)
    for domain in (easy, hard):
        assert domain.windows.tokens_RxL1.shape == (30, 9)
    assert [(q.name, q.task, len(q.items)) for q in hard.questions] == [
        ("continuation-hard", "continuation-hard", 20)
    ]
    assert not hard.skipped
    # The easy language has 12 * 2 * 2 * 2 stretches of four symbols: the training text has all.
    assert not easy.questions
    assert "from 0 validation documents" in easy.skipped["continuation-easy"]


def test_every_method_is_asked_the_same(make_run, corpora, tokenizer):
    mix, other = (
        validate(settings.Run, atomic_files.read_json(make_run(name, **changes)), name)
        for name, changes in (("mix", {}), ("other", {"rule": "round-robin", "seed": 7}))
    )
    first, second = (prepare_domains(ASKED, work, corpora, tokenizer) for work in (mix, other))
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.windows.tokens_RxL1, two.windows.tokens_RxL1)
    ((ours,), (theirs,)) = (domains[1].questions for domains in (first, second))
    assert ours.manifest_facts["sha256"] == theirs.manifest_facts["sha256"]


def test_a_run_may_be_evaluated_on_domains_that_it_never_saw(make_run, corpora, tokenizer):
    single = validate(settings.Run, atomic_files.read_json(make_run(domains=["easy"])), "run")
    both = dataclasses.replace(ASKED, domains=("hard", "easy"))
    assert [d.name for d in prepare_domains(ASKED, single, corpora, tokenizer)] == ["easy"]
    assert [d.name for d in prepare_domains(both, single, corpora, tokenizer)] == ["hard", "easy"]


def test_without_the_task_only_perplexity_is_asked(work, corpora, tokenizer):
    perplexity_only = dataclasses.replace(ASKED, choice=None)
    domains = prepare_domains(perplexity_only, work, corpora, tokenizer)
    assert not any(d.questions or d.skipped for d in domains)


def test_solved_items_stand_before_the_questions(work, corpora, tokenizer):
    # A row of 8 tokens holds a solved item of 1 + 3 and a question, whose last token is not read.
    few = FewShot(items=10, context=1, candidate=3, shots=1)
    asked = dataclasses.replace(ASKED, choice=None, few_shot=few)
    hard = prepare_domains(asked, work, corpora, tokenizer)[1]
    (questions,) = hard.questions
    assert questions.name == "continuation-hard, 1-shot"
    assert (questions.task, questions.shots, len(questions.items)) == ("continuation-hard", 1, 10)
    (solved,) = {item.context_C[:-1] for item in questions.items}
    assert len(solved) == 4
    held_out = Corpus.open(corpora / "hard", "validation")
    text = held_out.read_tokens(0, held_out.tokens)
    assert (np.lib.stride_tricks.sliding_window_view(text, 4) == solved).all(axis=1).any()
    # It is no question itself.
    whole = {(i.context_C[-1], *i.candidates[i.gold]) for i in questions.items}
    assert solved not in whole
    assert questions.manifest_facts["shots"] == 1
    longer = dataclasses.replace(asked, few_shot=dataclasses.replace(few, shots=2))
    with pytest.raises(InputError, match="few_shot: questions of 12 tokens, candidates included"):
        prepare_domains(longer, work, corpora, tokenizer)


def test_a_tokenizer_that_did_not_pack_the_corpus_is_refused(work, corpora, tokenizer, tmp_path):
    other = tmp_path / "other.model"
    # A field that SentencePiece does not know: the same pieces, another file.
    other.write_bytes(tokenizer.path.read_bytes() + b"\xfa\x3f\x00")
    with pytest.raises(InputError, match=r"was not packed with .*other\.model"):
        prepare_domains(ASKED, work, corpora, Tokenizer(other))


# With 18 pieces the space is one of its own, with 21 some words are whole.
@pytest.mark.parametrize("vocabulary", [18, 21])
def test_words_start_where_a_piece_brings_its_space(tmp_path, vocabulary):
    model = io.BytesIO()
    text = ["the cat sat on the mat", "a cat and a rat", "the rat ran on"] * 20
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, vocab_size=vocabulary, minloglevel=2
    )
    path = tmp_path / "words.model"
    path.write_bytes(model.getvalue())
    words = Tokenizer(path)
    starts_V = word_start_mask(words)
    tokens = words.encode(["the cat sat on the mat"])[0]
    assert int(starts_V[tokens].sum()) == 6
    text = "".join("|" * int(starts_V[t]) + words.decode([t]).strip() for t in tokens.tolist())
    assert text == "|the|cat|sat|on|the|mat"
    assert not starts_V[[words.eos, words.unknown]].any()
