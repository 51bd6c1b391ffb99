import pytest

from pike_mixing import sizes
from pike_mixing.errors import InputError


def test_sizes_are_found_by_name_not_by_place():
    assert sizes.ordered({"hi": 2, "en": 5}, ("en", "hi")).tolist() == [5, 2]


def test_sizes_that_are_not_known_are_asked_for():
    with pytest.raises(InputError, match=r"tokens_by_domain: the sizes .* give them"):
        sizes.ordered(None, ("en",))


def test_every_domain_needs_a_size_and_every_size_a_domain():
    with pytest.raises(InputError) as caught:
        sizes.ordered({"en": 1, "hindi": 1}, ("en", "hind"))
    assert "'hindi' is unknown: did you mean 'hind'?" in str(caught.value)
    assert "domain 'hind' has no size" in str(caught.value)


def test_an_empty_corpus_is_a_problem():
    assert sizes.checked({"en": 1, "hi": 0, "de": -1}) == [
        "tokens_by_domain.hi: 0 is not positive",
        "tokens_by_domain.de: -1 is not positive",
    ]
    assert sizes.checked(None) == []
