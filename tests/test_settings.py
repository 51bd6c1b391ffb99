import dataclasses
from typing import Annotated, Any, Literal

import pytest
from recipes import recipe

from pike_mixing.errors import InputError
from pike_mixing.interface import StatisticsNeed
from pike_mixing.setting_limits import Limits, NonNegativeInt, PositiveFloat, PositiveInt, Share
from pike_mixing.setting_messages import unknown_name_message
from pike_mixing.settings import CheckedSettings, parse_settings
from pipeline import settings
from pipeline.runtime.validate_settings import OrOne, validate


@dataclasses.dataclass(frozen=True)
class Inner:
    size: int


@dataclasses.dataclass(frozen=True)
class Sample:
    name: str
    count: int
    share: float = 0.5
    loud: bool = False
    kind: Literal["a", "b"] = "a"
    limit: int | None = None
    parts: tuple[float, ...] = ()
    weights: dict[str, float] | None = None
    inner: Inner = Inner(1)
    free: dict[str, Any] = dataclasses.field(default_factory=dict)

    def problems(self):
        return ["count: must be at least 1"] if self.count < 1 else []


RANGE = f"must lie between -{2**63 - 1} and {2**63 - 1}"


def message(kind, values, make=validate):
    with pytest.raises(InputError) as caught:
        make(kind, values, "here")
    return str(caught.value).splitlines()


def test_plain_values_become_a_dataclass_and_what_is_left_out_has_its_default():
    values = {
        "name": "x",
        "count": 3,
        "share": 1,
        "parts": [1, 2.5],
        "weights": {"en": 1},
        "inner": {"size": 4},
        "limit": 7,
        "free": {"any": [1]},
    }
    parsed = validate(Sample, values, "here")
    assert parsed == Sample("x", 3, 1.0, parts=(1.0, 2.5), weights={"en": 1.0}, inner=Inner(4),
                            limit=7, free={"any": [1]})  # fmt: skip
    assert isinstance(parsed.share, float)
    assert isinstance(parsed.weights["en"], float)
    least = {"name": "x", "count": 1}
    assert validate(Sample, least, "here") == validate(Sample, {**least, "limit": None}, "here")
    assert validate(Sample, least, "here") == Sample("x", 1)


def test_settings_that_are_no_mapping_are_refused_with_its_keys():
    assert message(Sample, [1]) == ["here: [1] is not a mapping with name, count"]
    assert "here: model is missing: a mapping with layers, width, heads, head_width" in message(
        settings.Run, {}
    )


def test_all_mistakes_are_reported_at_once():
    assert message(Sample, {"nam": "x", "count": "3", "share": "much"}) == [
        "here: name is missing: a text",
        "here.count: '3' is not a whole number: write 3",
        "here.share: 'much' is not a number",
        "here: 'nam' is unknown: did you mean 'name'?",
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"count": True}, "here.count: True is not a whole number"),
        ({"count": 1.0}, "here.count: 1.0 is not a whole number: write 1"),
        ({"count": "30MB"}, "here.count: '30MB' is not a whole number: write 30000000"),
        ({"limit": "64KiB"}, "here.limit: '64KiB' is not a whole number: write 65536"),
        ({"count": "2e6"}, "here.count: '2e6' is not a whole number: write 2000000"),
        ({"count": "30,000"}, "here.count: '30,000' is not a whole number: write 30000"),
        ({"count": "0.5 B"}, "here.count: '0.5 B' is not a whole number"),
        ({"count": "many"}, "here.count: 'many' is not a whole number"),
        ({"share": 10**400}, f"here.share: {RANGE}"),
        ({"share": float("inf")}, "here.share: inf is not a number"),
        ({"loud": 1}, "here.loud: 1 is not true or false"),
        ({"kind": "c"}, "here.kind: 'c' is not one of 'a', 'b'"),
        ({"name": 8}, "here.name: 8 is not a text: put it in quotes"),
        ({"parts": [1, "x"]}, "here.parts[1]: 'x' is not a number"),
        ({"parts": "xy"}, "here.parts: 'xy' is not a list"),
        ({"weights": {"en": "x"}}, "here.weights.en: 'x' is not a number"),
        ({"inner": 3}, "here.inner: 3 is not a mapping with size"),
        ({"inner": {}}, "here.inner: size is missing: a whole number"),
        ({"count": 0}, "here.count: must be at least 1"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_place(values, expected):
    assert message(Sample, {"name": "x", "count": 3, **values}) == [expected]


@dataclasses.dataclass(frozen=True)
class Limited(CheckedSettings):
    count: PositiveInt = 1
    place: NonNegativeInt | None = None
    rate: PositiveFloat = 1.0
    share: Share = 0.5
    decay: Annotated[float, Limits(at_least=0, below=1)] = 0.5
    even: Annotated[int, Limits(at_least=2, multiple_of=2)] = 2
    more: Annotated[int, Limits(above=3)] = 4
    most: Annotated[int, Limits(at_most=3)] = 1
    less: Annotated[int, Limits(below=3)] = 1
    times: Annotated[int, Limits(multiple_of=8)] = 8
    name: Annotated[str, Limits(pattern="[a-z]+", means="a name of small letters")] = "a"
    judged: Annotated[str, Limits(judge=settings.hub_id_problem)] = "a/b"
    parts: Annotated[tuple[PositiveInt, ...], Limits(filled=True, distinct=True)] = (1,)
    files: Annotated[tuple[Annotated[str, Limits(filled=True)], ...], OrOne] = ("a",)
    by_name: dict[Annotated[str, Limits(pattern="[a-z]+")], PositiveInt] | None = None


@pytest.mark.parametrize(
    ("name", "taken", "refused", "expected"),
    [
        ("count", [1, 2**63 - 1], 0, "count: must be at least 1, not 0"),
        ("place", [0, None], -1, "place: must not be negative, not -1"),
        ("rate", [1e-300, 3], 0, "rate: must be positive, not 0"),
        ("share", [0, 1, 0.5], 1.5, "share: must lie in [0, 1], not 1.5"),
        ("decay", [0, 0.999], 1, "decay: must lie in [0, 1), not 1"),
        ("even", [2, 64], 3, "even: must be at least 2 and a multiple of 2, not 3"),
        ("more", [4], 3, "more: must be above 3, not 3"),
        ("most", [3], 4, "most: must be at most 3, not 4"),
        ("less", [2], 3, "less: must be below 3, not 3"),
        ("times", [0, 16], 3, "times: must be a multiple of 8, not 3"),
        ("name", ["ab"], "ab\n", "name: 'ab\\n' is not a name of small letters"),
        ("judged", ["c4"], "a/b/c", "judged: 'a/b/c' is not an id on the Hugging Face Hub: wri"),
        ("parts", [[1, 2], [3]], [1, 2, 1], "parts: 1 is named twice"),
        ("parts", [], [], "parts: name at least one"),
        ("count", [], 2**63, f"count: {RANGE}"),
        ("by_name", [{"a": 1}], {"A": 1}, "by_name: the name: 'A' is not [a-z]+"),
        ("by_name", [], {"a": 0}, "by_name.a: must be at least 1, not 0"),
    ],
)
@pytest.mark.parametrize("make", [validate, parse_settings], ids=["the pipeline", "the library"])
def test_a_value_keeps_to_the_limits_of_its_type(make, name, taken, refused, expected):
    for value in taken:
        make(Limited, {name: value}, "here")
    (line,) = message(Limited, {name: refused}, make)
    assert line.startswith(f"here.{expected}")


def test_one_entry_may_stand_without_its_list():
    assert validate(Limited, {"files": "a"}, "here").files == ("a",)
    assert validate(Limited, {"files": ["a", "b"]}, "here").files == ("a", "b")
    assert message(Limited, {"files": ""}) == ["here.files[0]: must not be empty"]


@dataclasses.dataclass(frozen=True)
class Simple(CheckedSettings):
    name: str
    count: int
    share: float = 0.5
    kind: Literal["a", "b"] = "a"
    weights: dict[str, float] | None = None


@pytest.mark.parametrize(
    "values",
    [
        {"nam": "x", "share": "much", "weights": {"en": True}},
        {"name": 8, "count": 1.0, "kind": "c", "weights": [1]},
    ],
)
def test_the_library_says_the_same(values):
    assert sorted(message(Simple, values, parse_settings)) == sorted(message(Simple, values))


def test_an_unknown_name_is_answered_with_the_nearest_or_with_all():
    # A name that differs in upper and lower case alone is nearer than one that goes on.
    for written, known, near in (
        ("PiKE", ["mix", "pike"], "'pike'"),
        ("Pike", ["pike", "pike-glam-init"], "'pike'"),
        ("a100", ["A100", "a100-40gb", "a100-80gb"], "'A100'"),
        ("a100", ["a100-40gb", "a100-80gb"], "'a100-40gb' or 'a100-80gb'"),
        ("MIX", ["Mix", "mix", "mix-two"], "'Mix' or 'mix'"),
    ):
        assert unknown_name_message(written, known, "rule").endswith(f"did you mean {near}?")
    assert unknown_name_message("zzz", ["mix", "pike"], "rule") == (
        "rule: 'zzz' is unknown: known: mix, pike"
    )


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        *((name, None) for name in ("gpt2", "allenai/c4", "a_b/c.d-e")),
        ("a/b/c", "write owner/name"),
        ("allenai/c4\n", "write owner/name"),
        ("allenai/" + "x" * 90, "write owner/name"),
        ("https://huggingface.co/google/mt5-base", "write google/mt5-base"),
        ("https://huggingface.co/datasets/allenai/c4/tree/main", "write allenai/c4"),
        ("huggingface.co/datasets/allenai/c4?row=1", "write allenai/c4"),
    ],
)
def test_what_is_no_id_on_the_hub_is_answered_with_one(name, advice):
    problem = settings.hub_id_problem(name)
    assert problem is None if advice is None else advice in problem


def test_the_recipes_defaults_are_the_papers():
    ours = recipe()
    assert (ours.beta1, ours.beta2, ours.weight_decay, ours.clip_norm) == (0.95, 0.98, 0.1, 1.0)


@pytest.mark.parametrize(
    ("fresh", "rows", "b", "microbatch", "expected"),
    [
        (True, 8, 4, 4, []),
        (True, 8, 4, 8, ["it measures 8 rows of a domain (rows) in micro-batches of 8"]),
        (False, 2, 6, 3, []),
        (False, 2, 5, 1, ["measures the 5 rows of a batch (training.rows), too few for 2 (rows)"]),
        (False, 1, 3, 3, ["it measures 3 rows of a domain (training.rows) in micro-batches of 3"]),
        (False, 2, 4, 4, ["in micro-batches of 4", "too few for 2 (rows) of each of 3 domains"]),
    ],
)
def test_batches_too_small_for_a_variance_are_named(fresh, rows, b, microbatch, expected):
    need = StatisticsNeed(first=0, every=1, fresh=fresh, rows=rows)
    found = recipe(rows=b, statistics_microbatch=microbatch).variance_problems(need, 3)
    assert len(found) == len(expected)
    for text, words in zip(found, expected, strict=True):
        assert words in text
