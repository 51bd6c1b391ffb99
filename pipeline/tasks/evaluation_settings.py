"""Settings of what is asked of a run's checkpoints: an evaluation, a probe of their gradients."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pike_mixing.setting_limits import Limits, PositiveInt
from pipeline.tasks.prepared_task import TaskSpec


@dataclass(frozen=True)
class Choice:
    """Settings of the multiple-choice task."""

    items: PositiveInt
    """Items per domain at most."""
    context: PositiveInt
    """Tokens of context."""
    candidate: PositiveInt
    """Tokens of each candidate."""
    distractors: PositiveInt = 3
    """False candidates; chance is 1 / (distractors + 1)."""
    distractors_from: Literal["same", "other"] = "same"
    """Whether they come from the item's own document (hard) or from other documents (easy)."""

    @property
    def min_document_tokens(self) -> int:
        """Shortest document, EOS not counted, that can give an item."""
        from_own = self.distractors if self.distractors_from == "same" else 0
        return self.context + self.candidate * (1 + from_own)

    @property
    def question_and_answer_tokens(self) -> int:
        """A whole question with its true continuation."""
        return self.context + self.candidate


@dataclass(frozen=True)
class FewShot(Choice):
    """The same behind items of the same domain that are solved."""

    shots: PositiveInt = 7
    """Solved items before each question."""

    @property
    def question_and_answer_tokens(self) -> int:
        """With the solved items, each as long as the question."""
        return (self.shots + 1) * (self.context + self.candidate)


@dataclass(frozen=True)
class EvaluationOptions:
    """What is asked of every model of a scenario."""

    rows: PositiveInt
    """Validation windows per domain at most, each as long as the training's rows. A verdict needs
    20 documents of about equal size in each domain: about 30 rows of 64 tokens, or more."""
    batch_tokens: PositiveInt
    """Tokens per forward pass; changes speed and memory, not results."""
    checkpoints: Literal["all", "last"]
    """Which of the kept checkpoints are evaluated."""
    choice: Choice | None = None
    """The multiple-choice task; absent: perplexity only."""
    few_shot: FewShot | None = None
    """The multiple-choice task once more, with shorter items of which some are solved before each
    question; absent: it is not asked."""
    domains: Annotated[tuple[str, ...], Limits(filled=True, distinct=True)] | None = None
    """Domains to evaluate on; absent: those that the run was trained on."""
    token_losses: bool = False
    """Whether the loss of every scored token of the search split is kept: the finder mde reads
    them."""

    def choices_by_setting(self) -> dict[str, Choice]:
        """The multiple-choice tasks that are asked for, by the name of their setting."""
        both = {"choice": self.choice, "few_shot": self.few_shot}
        return {name: one for name, one in both.items() if one is not None}


@dataclass(frozen=True)
class Evaluation(EvaluationOptions):
    """The same, as the stage is given it."""

    tasks: tuple[TaskSpec, ...] = ()
    """Downstream tasks, each with its shots and formulation."""
    search: bool = False
    """Whether losses on the search split are measured too, which grids and finders read."""

    def problems(self) -> list[str]:
        """Ways of asking that are there twice."""
        labels = [task.label for task in self.tasks]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        return [f"tasks: {label} is asked twice: keep one" for label in twice]


@dataclass(frozen=True)
class Probe:
    """Settings of the gradient probe."""

    rows: Annotated[int, Limits(at_least=2)]
    """Rows of each domain at most."""
    microbatch: PositiveInt
    """Rows per backward pass; the noise is estimated from how these groups differ."""
    checkpoints: Literal["all", "last"]
    """Which of the kept checkpoints are probed."""
    split: Literal["validation", "train"] = "validation"
    """Split that the rows come from."""
