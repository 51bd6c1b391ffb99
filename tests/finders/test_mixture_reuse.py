import pytest
from hypothesis import given
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pike_mixing.finders.mixture_reuse import expand_mixture, kept_weights

OLD = {"code": 0.5, "prose": 0.3, "web": 0.2}


def test_the_mixtures_of_the_released_case_study():
    """allenai/olmix (9586977), configs/mixture_reuse_case_study/generate, files 1, 2, 3 and 5.

    Two of 24 topics, the others as one: stack-edu came beside them with 1 - 0.68761. Two of 44
    domains before and after algebraicstack was removed.
    """
    first = {"art_and_design": 0.01778366638911771, "software_development": 0.31774061939010495}
    first["others"] = 1 - sum(first.values())
    second = expand_mixture(
        {"dclm": 0.6876104286652704, "stack-edu": 0.3123895713347296}, "dclm", kept_weights(first)
    )
    assert second["art_and_design"] == pytest.approx(0.012228234469129571, rel=1e-9)
    third = {"algebraicstack": 0.020601879388687547, "finemath-3plus": 0.13974017958785154}
    third["others"] = 1 - sum(third.values())
    fifth = kept_weights(third, {"algebraicstack"})
    assert fifth["finemath-3plus"] == pytest.approx(0.14267964849741566, rel=1e-9)


weights = st.floats(1e-6, 1)


@given(st.dictionaries(st.sampled_from("abcdef"), weights, min_size=2), st.data(), st.floats(0, 1))
def test_odds_within_the_virtual_domain_stay(old, data, share):
    changed = data.draw(st.sets(st.sampled_from(sorted(old)), max_size=len(old) - 1))
    new = expand_mixture({"rest": share, "new": 1 - share}, "rest", kept_weights(old, changed))
    assert new.keys() == (old.keys() - changed) | {"new"}
    assert sum(new.values()) == pytest.approx(1)
    total = sum(old[domain] for domain in old.keys() - changed)
    assert all(new[d] == pytest.approx(share * old[d] / total) for d in new if d != "new")


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: kept_weights(OLD, {"wed"}), "changed: 'wed' is unknown: did you mean 'web'"),
        (lambda: kept_weights(OLD, OLD), "old: the unchanged domains have no ratios"),
        (lambda: kept_weights({"code": -1, "web": 2}), "old: the unchanged domains have no ratios"),
        (
            lambda: expand_mixture({"old": 1}, "odd", {}),
            "virtual: 'odd' is unknown: did you mean 'old'",
        ),
        (
            lambda: expand_mixture({"old": 0.5, "web": 0.5}, "old", OLD),
            "web also lies within 'old'",
        ),
        (
            lambda: expand_mixture({"old": 1.2, "new": -0.2}, "old", OLD),
            "new=-0.2: weights must not be",
        ),
    ],
)
def test_what_cannot_be_reused_is_refused(act, message):
    with pytest.raises(InputError, match=message):
        act()
