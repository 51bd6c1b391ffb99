import dataclasses

import pytest
import sentencepiece

from pike_mixing.errors import InputError
from pipeline.data.tokenizer import Tokenizer
from pipeline.evaluation.prompt_encoding import encode_questions_with_fitting_shots
from pipeline.tasks import task_definitions
from pipeline.tasks.prepared_task import prepare_task
from pipeline.tasks.task import join_prompt

LONG = 10**6
MODELS = [
    f"{model}, {kind} line breaks" for model in ("unigram", "bpe") for kind in ("with", "without")
]


@pytest.mark.parametrize("shots", [0, 7])
@pytest.mark.parametrize("formulation", ["cf", "mcf", "hyb"])
@pytest.mark.parametrize("name", MODELS)
def test_context_and_candidate_are_the_whole_text(
    benchmarks, tokenizers, asked, name, formulation, shots
):
    """English, German and Hindi: the cut is a boundary of tokens, and nothing is lost at it."""
    tokenizer = tokenizers[name]
    for task in task_definitions.TASKS:
        benchmark = prepare_task(benchmarks, asked(task, shots, formulation))
        items = encode_questions_with_fitting_shots(benchmark, tokenizer, LONG)
        texts = [
            join_prompt(benchmark.demonstration_texts, prompt.context) + candidate
            for prompt in benchmark.prompts_without_demonstrations
            for candidate in prompt.candidates
        ]
        wholes = [(tokenizer.eos, *tokens.tolist()) for tokens in tokenizer.encode(texts)]
        assert [item.context_C + c for item in items for c in item.candidates] == wholes
        assert {item.shots for item in items} == {shots}


def test_an_item_by_hand(benchmarks, tokenizer, asked):
    benchmark = prepare_task(benchmarks, asked("arc_easy"))
    item = encode_questions_with_fitting_shots(benchmark, tokenizer, LONG)[6]
    assert (item.id, item.cluster, item.gold) == ("own_07", "own_07", 1)
    text = "Question: At 0 °C, what happens to water?\nAnswer:"
    assert tokenizer.decode(item.context_C[1:]) == text
    assert [tokenizer.decode(c) for c in item.candidates][:2] == [" It boils.", " It freezes."]
    # Without the space in front.
    assert item.characters == (9, 11, 9, 9)
    assert item.unconditional_C == (tokenizer.eos, *tokenizer.encode(["Answer:"])[0])


def test_bytes_count_utf8_and_characters_count_code_points(benchmarks, tokenizer, asked):
    benchmark = prepare_task(benchmarks, asked("hellaswag_hi"))
    item = encode_questions_with_fitting_shots(benchmark, tokenizer, LONG)[0]
    text = "उड़ जाता है।"
    assert item.characters[3] == len(text)
    assert item.bytes[3] == len(text.encode())
    assert item.bytes[3] > 2 * item.characters[3]


def test_the_document_start_is_a_setting(benchmarks, tokenizer, asked):
    with_it, without = (
        encode_questions_with_fitting_shots(
            prepare_task(benchmarks, asked("piqa", document_start=start)), tokenizer, LONG
        )[0]
        for start in (True, False)
    )
    assert with_it.context_C == (tokenizer.eos, *without.context_C)
    assert with_it.unconditional_C == (tokenizer.eos, *without.unconditional_C)
    assert with_it.candidates == without.candidates
    for start in (True, False):
        # Without a question HellaSwag begins at the document.
        plain = prepare_task(benchmarks, asked("hellaswag", document_start=start))
        item = encode_questions_with_fitting_shots(plain, tokenizer, LONG)[0]
        assert item.unconditional_C == (tokenizer.eos,)


def longest(item):
    """Tokens that are read to score the item's longest candidate, whose last one is not."""
    return len(item.context_C) + max(map(len, item.candidates)) - 1


def test_whole_demonstrations_are_dropped_from_the_front_until_it_fits(
    benchmarks, tokenizer, asked
):
    benchmark = prepare_task(benchmarks, asked("csqa", 7, "mcf"))
    full = encode_questions_with_fitting_shots(benchmark, tokenizer, LONG)
    # Room for the shortest with all seven, and not for the others.
    length = min(map(longest, full))
    found = encode_questions_with_fitting_shots(benchmark, tokenizer, length)
    assert {item.shots for item in found} == {6, 7}
    prompts = benchmark.prompts_without_demonstrations
    for item, whole, prompt in zip(found, full, prompts, strict=True):
        assert longest(item) <= length
        assert (item.shots == 7) == (longest(whole) <= length)
        kept = benchmark.demonstration_texts[7 - item.shots :]
        assert tokenizer.decode(item.context_C[1:]) == join_prompt(kept, prompt.context)
        assert item.candidates == whole.candidates
    # One token less and none keeps all seven.
    shorter = encode_questions_with_fitting_shots(benchmark, tokenizer, length - 1)
    assert {item.shots for item in shorter} == {6}


def test_a_question_is_never_cut(benchmarks, tokenizer, asked):
    zero_shot, seven_shot = (prepare_task(benchmarks, asked("csqa", shots)) for shots in (0, 7))
    alone = encode_questions_with_fitting_shots(zero_shot, tokenizer, LONG)
    length = max(map(longest, alone))
    found = encode_questions_with_fitting_shots(seven_shot, tokenizer, length)
    assert min(item.shots for item in found) == 0
    longest_of_all = alone[[longest(item) for item in alone].index(length)]
    message = rf"1 prompts do not fit into the {length - 1} tokens.*item {longest_of_all.id}"
    with pytest.raises(InputError, match=message):
        encode_questions_with_fitting_shots(seven_shot, tokenizer, length - 1)


def test_overflow_may_be_refused(benchmarks, tokenizer, asked):
    benchmark = prepare_task(benchmarks, asked("csqa", 7, overflow="refuse"))
    length = min(map(longest, encode_questions_with_fitting_shots(benchmark, tokenizer, LONG)))
    with pytest.raises(InputError, match=r"11 prompts do not fit.*set overflow: drop"):
        encode_questions_with_fitting_shots(benchmark, tokenizer, length)


def test_a_cut_inside_a_token_names_the_item(benchmarks, asked, tmp_path):
    # A piece with a space inside: the colon and the letter behind it.
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["Answer: yes"] * 50 + ["abcdefghijklmnopqrstuvwxyz"]),
        model_prefix=str(tmp_path / "wide"),
        vocab_size=60,
        hard_vocab_limit=False,
        user_defined_symbols=[":\u2581B"],
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    tokenizer = Tokenizer(tmp_path / "wide.model")
    with pytest.raises(InputError, match=r"item own_01: the context does not end between.*' B'"):
        encode_questions_with_fitting_shots(
            prepare_task(benchmarks, asked("arc_easy", 0, "mcf")), tokenizer, LONG
        )


def test_a_candidate_of_no_tokens_names_the_item(benchmarks, tokenizers, asked):
    # A zero-width space is no blank to Python, and nothing to SentencePiece's normaliser.
    benchmark = prepare_task(benchmarks, asked("piqa"))
    benchmark.rows[0] = dataclasses.replace(benchmark.rows[0], options=("\u200b", "water"))
    tokenizer = tokenizers["unigram, without line breaks"]
    with pytest.raises(InputError, match="piqa, 0-shot, cf, item validation:0: the candidate"):
        encode_questions_with_fitting_shots(benchmark, tokenizer, LONG)
