"""lm-evaluation-harness's Hugging Face back end on a model of transformers with our weights."""

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
from lm_eval.models.huggingface import HFLM

from benchmarks import twin
from benchmarks.scoring import ROWS, Scorer
from pipeline.evaluation.scoring import Question
from pipeline.model.transformer import Transformer
from pipeline.statistics.clustered import Floats

LENGTH = 4096


def scorer(model: Transformer) -> Scorer:
    """Answers questions in tokens as the harness does, eight rows at a time."""
    copy = twin.persimmon(model, length=LENGTH, eos=1)
    # Nothing is written in text here, so that a tokenizer need only have a size.
    pieces = SimpleNamespace(eos=1, vocabulary=model.vocabulary, decode=lambda tokens: "")
    harness = HFLM(pretrained=copy, tokenizer=twin.Pieces(pieces), batch_size=ROWS)

    def answers(questions: Sequence[Question]) -> list[Floats]:
        requests = [
            (("", ""), list(question.context_C), list(candidate))
            for question in questions
            for candidate in question.candidates
        ]
        told = iter(harness._loglikelihood_tokens(requests, disable_tqdm=True))
        return [np.array([next(told)[0] for _ in question.candidates]) for question in questions]

    return Scorer("harness", answers, copy.get_input_embeddings())
