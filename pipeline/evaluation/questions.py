"""What is asked of every model: settings, and the windows, items and questions made from them.

Shapes: V pieces of the tokenizer.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pike_mixing.errors import InputError
from pipeline.data.shards import Corpus
from pipeline.data.tokenizer import Tokenizer
from pipeline.evaluation import held_out_choices, perplexity, prompt_encoding
from pipeline.evaluation.answers import CONTINUATION, DOWNSTREAM, QuestionSet
from pipeline.settings import Run
from pipeline.tasks.evaluation_settings import Evaluation
from pipeline.tasks.prepared_task import PreparedTask

log = logging.getLogger("pike")


@dataclass(frozen=True)
class EvaluatedDomain:
    """What is asked about one domain."""

    name: str
    windows: perplexity.Windows
    search: perplexity.Windows | None
    """Windows of the search split; None when its losses were not asked for."""
    questions: list[QuestionSet]
    """Its multiple-choice task, without solved items and with them."""
    skipped: dict[str, str]
    """Why it cannot give one, by the question set's name."""


def prepare_domains(
    evaluation: Evaluation, work: Run, corpora: Path, tokenizer: Tokenizer
) -> list[EvaluatedDomain]:
    """Windows and items of each domain."""
    length = work.training.length
    for key, choice in evaluation.choices_by_setting().items():
        tokens = choice.question_and_answer_tokens
        if tokens - 1 > length:
            raise InputError(
                f"{key}: questions of {tokens} tokens, candidates included, do not "
                f"fit into the {length} tokens that {work.scenario} was trained with: lower "
                f"evaluation.{key}.context"
            )
    choices = evaluation.choices_by_setting().values()
    word_start_V = word_start_mask(tokenizer) if choices else None
    prepared = []
    for name in evaluation.domains or work.domains:
        folder = corpora / name
        held_out = Corpus.open(folder, "validation", verify=True)
        if held_out.manifest["tokenizer"]["sha256"] != tokenizer.sha256:
            raise InputError(
                f"{folder} was not packed with {tokenizer.path}: give the tokenizer that packed "
                "it, or pack it anew"
            )
        windows, search = perplexity.evenly_spread_windows(held_out, length, evaluation.rows), None
        if evaluation.search or evaluation.token_losses:
            searched = Corpus.open(folder, "search", verify=True)
            search = perplexity.evenly_spread_windows(searched, length, evaluation.rows)
        domain, task = EvaluatedDomain(name, windows, search, [], {}), f"continuation-{name}"
        prepared.append(domain)
        if word_start_V is None:
            continue
        # Its shards are hashed: once for all ways to ask.
        train = Corpus.open(folder, "train", verify=True)
        for choice in choices:
            asked = held_out_choices.build_items(held_out, train, choice, word_start_V)
            way = task + (f", {asked.shots}-shot" if asked.shots else "")
            if shortage := asked.document_minimum_problem(choice):
                log.warning("%s is skipped: %s", way, shortage)
                domain.skipped[way] = shortage
                continue
            items = asked.encoded_items(unconditional_token=held_out.eos)
            facts = asked.manifest_facts()
            shots = (asked.shots, "pmi")
            domain.questions.append(QuestionSet(way, task, *shots, CONTINUATION, items, facts))
    return prepared


def task_questions(asked: PreparedTask, tokenizer: Tokenizer, length: int) -> QuestionSet:
    """A downstream task in tokens, for a model that reads `length` of them at once."""
    spec = asked.spec
    items = prompt_encoding.encode_questions_with_fitting_shots(asked, tokenizer, length)
    short = sum(item.shots < spec.shots for item in items)
    facts = {**asked.manifest_facts(), "items_with_fewer_shots": short}
    way = (spec.label, spec.task, spec.shots, spec.formulation)
    return QuestionSet(*way, DOWNSTREAM, items, facts)


def word_start_mask(tokenizer: Tokenizer) -> npt.NDArray[np.bool_]:
    """Whether each piece begins a word: behind another piece it brings a space."""
    alone = (n for n in range(tokenizer.vocabulary) if n != tokenizer.unknown)
    before = next(n for n in alone if tokenizer.decode([n]).strip())
    at = len(tokenizer.decode([before]))
    pairs = (tokenizer.decode([before, n]) for n in range(tokenizer.vocabulary))
    starts_V = np.array([pair[at : at + 1] == " " for pair in pairs])
    if tokenizer.unknown is not None:
        # It is written with spaces around it.
        starts_V[tokenizer.unknown] = False
    return starts_V
