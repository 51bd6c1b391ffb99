"""DrawnScenario scenarios keep what they promise, whatever the seed."""

import math
from collections import Counter

from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pipeline.data.synthetic import SyntheticSource
from pipeline.planning import drawn_scenarios as drawn
from pipeline.planning.drawn_scenarios import ScenarioDrawSettings
from pipeline.runtime.validate_settings import validate

TEXTS = {f"code-{n}": {"kind": "python", "topic": "code", "bytes": 10**n} for n in range(6)}
TOKENS = 10**6
seeds = st.integers(0, 10**6)


def scenarios(seed, stream="test", number=8, tokens=TOKENS):
    return list(drawn.draw_scenarios(ScenarioDrawSettings(stream, seed, number, TEXTS), tokens))


def languages(scenario):
    return [
        validate(SyntheticSource, {k: v for k, v in values.items() if k != "kind"}, name)
        for name, values in scenario.sources.items()
        if values["kind"] == "synthetic"
    ]


@effort(max_examples=30, deadline=None)
@given(seeds, st.sampled_from([50_000, TOKENS, 4 * TOKENS]))
def test_a_scenario_is_what_it_says(seed, tokens):
    for number, scenario in enumerate(scenarios(seed, tokens=tokens)):
        own, count = languages(scenario), len(scenario.sources)
        # No more texts than the pool has.
        assert 2 <= count <= (20 if own else len(TEXTS))
        kinds = {"languages": count, "texts": 0, "both": len(own)}
        assert len(own) == kinds[scenario.kind]
        assert (scenario.target is not None) == bool(number % 2)
        if scenario.target:
            assert scenario.target.keys() == scenario.sources.keys()
            assert 1 <= sum(weight > 0 for weight in scenario.target.values()) <= max(1, count // 2)
        twins = [language for language in own if language.family is not None]
        assert len(twins) == scenario.duplicates
        assert len({(t.family, t.overlap, t.alphabet, t.order, t.symbols) for t in twins}) <= 1
        alphabets = Counter(language.alphabet for language in own)
        others = len(own) - max(len(twins) - 1, 0)
        assert len(alphabets) == (1 if scenario.shared else others)
        assert all(language.symbols <= drawn.LETTERS for language in own)


@effort(max_examples=30, deadline=None)
@given(seeds)
def test_every_language_has_two_hundred_held_out_documents_of_one_length(seed):
    share = drawn.VALIDATION_SHARE
    for scenario in scenarios(seed):
        read_more = 0
        for language in languages(scenario):
            expected = language.documents * share
            assert expected - 4 * math.sqrt(expected * (1 - share)) >= drawn.LEAST_DOCUMENTS
            # Of one length: each is less than 2 % of the tokens. Few of them are alike.
            assert 1 / drawn.LEAST_DOCUMENTS < 0.02
            assert language.length * language.entropy_nats_per_character >= drawn.DISTINCT_NATS
            tokens = language.documents * (1 - share) * (language.length + 1)
            assert tokens <= 1.4 * TOKENS
            read_more += tokens * len(scenario.sources) < 0.7 * TOKENS
        assert read_more <= scenario.small


def test_draws_are_functions_of_stream_seed_and_number():
    first = scenarios(3)
    assert first == scenarios(3)
    # More scenarios change none that were there.
    assert scenarios(3, number=24)[:8] == first
    assert all(one != other for one, other in zip(first, scenarios(4), strict=True))
    development = scenarios(3, "development")
    assert {s.name for s in development}.isdisjoint(s.name for s in first)
    grammars = [str(list(s.sources.values())) for s in development if s.kind == "languages"]
    assert not set(grammars) & {str(list(s.sources.values())) for s in first}


def test_the_draws_are_the_same_on_every_machine():
    (scenario,) = drawn.draw_scenarios(ScenarioDrawSettings("test", 1, 1), TOKENS)
    about = "10 domains of languages, in the same letters, 3 nearly alike"
    assert (scenario.name, scenario.about()) == ("t1-00", about)
    chain = {"kind": "synthetic", "order": 1, "symbols": 24, "successors": 8, "noise": 0.1}
    documents = {"alphabet": 19968, "seed": 902544794, "documents": 1300, "length": 139}
    assert scenario.sources["t1-00-03"] == chain | documents
