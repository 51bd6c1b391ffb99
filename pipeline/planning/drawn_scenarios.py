"""Scenarios drawn from a seed: sets of domains that nobody chose, on which methods are compared.

Scenario i is a function of (stream, seed, i), the texts and a run's tokens. Development scenarios
are for making rules, test scenarios for judging them once; their streams have nothing in common.
What is drawn: number of domains (2 to 20), their sizes, and of each language order, symbols,
successors and noise; whether languages share letters, are near-duplicates, or are so small that Mix
reads them several times; whether text of a pool stands beside or in place of languages; whether a
target weighs the losses.

Every language has at least `LEAST_DOCUMENTS` held-out documents of one length, so that none is
more than 2 % of the tokens; texts of the pool are to have as many.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pike_mixing.setting_limits import Limits, NonNegativeInt
from pipeline.data.synthetic import SyntheticSource
from pipeline.planning.configuration import Name, Source
from pipeline.planning.normal_form import plain_without_empty_defaults

VALIDATION_SHARE = 0.2
"""Share of documents that are held out: nine tenths of them for validation."""
LEAST_DOCUMENTS = 200
"""Held-out documents of a domain."""
DOCUMENTS = 1300
"""Documents of a language at least: 260 are expected held out, 200 are 4.2 deviations below."""
DISTINCT_NATS = 16.0
"""Entropy of a document at least: two in nine million are then alike."""
LEAST_TEXTS = 6
"""Sources of text, where there are any: of fewer too few sets can be drawn."""
KINDS = ("languages", "texts", "languages", "both")
SYMBOLS = {0: (16, 64), 1: (12, 32), 2: (8, 16), 3: (6, 10), 4: (4, 6)}
"""Least and most symbols of a language by its order: up to 1,296 contexts."""
NOISES = (0.02, 0.05, 0.1, 0.2, 0.4)
LENGTHS = (60, 100, 160)
"""Symbols of a document, unless the domain is small."""
REPETITIONS = (2, 4, 8, 16)
"""How often Mix reads a small domain, where so few tokens fill `DOCUMENTS` documents."""
FIRST_LETTER, LETTERS = 0x4E00, 64
"""Letters that stand for themselves in every tokenizer (CJK ideographs), so many a language."""


@dataclass(frozen=True)
class ScenarioDrawSettings:
    """Which scenarios are drawn."""

    stream: Literal["development", "test"]
    """development: opened as often as one likes; test: opened once, by rules that are frozen."""
    seed: NonNegativeInt
    """Seed of the draws."""
    number: Annotated[int, Limits(at_least=1, at_most=200)]
    """How many; the odd ones (01, 03, ...) have a target."""
    texts: dict[Name, Source] = field(default_factory=dict)
    """Sources of text that domains are drawn from; absent: languages alone."""

    def problems(self) -> list[str]:
        """A pool of which most scenarios would have the same texts."""
        if not 0 < len(self.texts) < LEAST_TEXTS:
            return []
        return [f"texts: give {LEAST_TEXTS} or none, so that scenarios differ in them"]


@dataclass(frozen=True)
class DrawnScenario:
    """One scenario: its sources by name, all of its own, and what is drawn beside them."""

    name: str
    sources: dict[str, dict[str, Any]]
    kind: str
    """languages, texts or both."""
    target: dict[str, int] | None
    shared: bool
    """Whether languages share letters."""
    duplicates: int
    """Languages that are nearly the same; 0 where none are."""
    small: int
    """Domains that Mix reads more than once."""

    def about(self) -> str:
        """One sentence for the report."""
        count = len(self.sources)
        what = {"languages": "languages", "texts": "text", "both": "languages and text"}[self.kind]
        parts = [f"{count} domains of {what}"]
        parts += ["in the same letters"] if self.shared else []
        parts += [f"{self.duplicates} nearly alike"] if self.duplicates else []
        parts += [f"{self.small} read more than once"] if self.small else []
        weighed = sum(weight > 0 for weight in self.target.values()) if self.target else 0
        parts += [f"{weighed} count{'s' if weighed == 1 else ''}"] if self.target else []
        return ", ".join(parts)


class _RandomStream:
    """Draws of one scenario, by `random()` alone, whose numbers no version of Python changes."""

    def __init__(self, *key: object) -> None:
        self._random = random.Random(" ".join(map(str, key)))

    def uniform(self) -> float:
        return self._random.random()

    def draw_seed(self) -> int:
        return int(self.uniform() * 10**9)

    def choose_one(self, values: Sequence[Any]) -> Any:
        return values[int(self.uniform() * len(values))]

    def log_uniform_int(self, low: int, high: int) -> int:
        """Evenly in the logarithm, both ends included."""
        return min(high, int(low * ((high + 1) / low) ** self.uniform()))

    def choose_some(self, values: Sequence[Any], count: int) -> list[Any]:
        """Some of the values, in their order."""
        marked = sorted((self.uniform(), place) for place in range(len(values)))
        return [values[place] for place in sorted(place for _, place in marked[:count])]


def draw_scenarios(
    settings: ScenarioDrawSettings, tokens: int, name_suffix: str = ""
) -> Iterator[DrawnScenario]:
    """The scenarios in their order, for runs of so many training tokens."""
    for number in range(settings.number):
        stream = _RandomStream(settings.stream, settings.seed, number)
        name = f"{settings.stream[0]}{settings.seed}-{number:02d}{name_suffix}"
        kind = KINDS[number // 2 % len(KINDS)] if settings.texts else "languages"
        yield _draw_scenario(name, kind, number % 2 == 1, stream, settings.texts, tokens)


def _draw_scenario(
    name: str,
    kind: str,
    has_target: bool,
    stream: _RandomStream,
    texts: Mapping[str, Any],
    tokens: int,
) -> DrawnScenario:
    count = stream.log_uniform_int(2, 20)
    written = {"languages": 0, "texts": count, "both": count // 2}[kind]
    of_text = stream.choose_some(list(texts), min(written, len(texts)))
    alone = 0 if kind == "texts" else count - len(of_text)
    count = alone + len(of_text)
    shared, near, repeated = (stream.uniform() < each for each in (1 / 3, 1 / 4, 1 / 3))
    duplicates = min(alone, stream.log_uniform_int(2, 4)) if near and alone > 1 else 0
    small = stream.choose_some(range(alone), stream.log_uniform_int(1, 2)) if repeated else []
    sizes = [_draw_domain_tokens(stream, tokens, count, place in small) for place in range(alone)]
    languages = _draw_language_settings(stream, sizes, shared, duplicates)
    sources = {f"{name}-{place:02d}": values for place, values in enumerate(languages)}
    sources |= {f"{name}-{text}": plain_without_empty_defaults(texts[text]) for text in of_text}
    target = None
    if has_target:
        weighed = stream.choose_some(list(sources), stream.log_uniform_int(1, max(1, count // 2)))
        target = {d: stream.choose_one((1, 1, 2, 3)) if d in weighed else 0 for d in sources}
    return DrawnScenario(name, sources, kind, target, shared and alone > 1, duplicates, len(small))


def _draw_domain_tokens(stream: _RandomStream, tokens: int, domains: int, is_small: bool) -> int:
    """Training tokens of a domain: what Mix reads once up to the whole budget, or far less."""
    once = math.ceil(tokens / domains)
    return (
        once // stream.choose_one(REPETITIONS) if is_small else stream.log_uniform_int(once, tokens)
    )


def _draw_language_settings(
    stream: _RandomStream, tokens_of_each: Sequence[int], shares_letters: bool, near_duplicates: int
) -> Iterator[dict[str, Any]]:
    """Settings of languages of so many training tokens each, the near-duplicates first."""
    letter, grammar = FIRST_LETTER, _draw_grammar(stream)
    family = {"family": stream.draw_seed(), "overlap": 0.9}
    for place, size in enumerate(tokens_of_each):
        twin = place < near_duplicates
        values = (grammar | family) if twin else _draw_grammar(stream)
        own = {"kind": "synthetic", **values, "alphabet": letter, "seed": stream.draw_seed()}
        yield own | _draw_document_sizes(stream, own, size)
        # Near-duplicates have their letters in common, whatever the others have.
        if not shares_letters and place >= near_duplicates - 1:
            letter += LETTERS


def _draw_grammar(stream: _RandomStream) -> dict[str, Any]:
    order = stream.choose_one(list(SYMBOLS))
    symbols = stream.log_uniform_int(*SYMBOLS[order])
    successors, noise = stream.log_uniform_int(1, max(2, symbols // 2)), stream.choose_one(NOISES)
    return {"order": order, "symbols": symbols, "successors": successors, "noise": noise}


def _draw_document_sizes(
    stream: _RandomStream, language_settings: Mapping[str, Any], training_tokens: int
) -> dict[str, int]:
    """Number and length of a language's documents, of which so many tokens are for training."""
    language = SyntheticSource(
        **{k: v for k, v in language_settings.items() if k != "kind"}, documents=DOCUMENTS, length=1
    )
    least = math.ceil(DISTINCT_NATS / language.entropy_nats_per_character)
    fitting = int(training_tokens / DOCUMENTS / (1 - VALIDATION_SHARE)) - 1
    length = max(least, min(stream.choose_one(LENGTHS), fitting))
    # A token ends each document.
    documents = math.ceil(training_tokens / (length + 1) / (1 - VALIDATION_SHARE))
    return {"documents": max(DOCUMENTS, documents), "length": length}
