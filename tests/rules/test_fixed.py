import pytest

from pike_mixing import registry
from pike_mixing.errors import InputError
from pike_mixing.interface import Facts
from pike_mixing.rules.fixed import Fixed

GLAM = ("filtered-webpages", "wikipedia", "conversations", "forums", "books", "news")


def test_the_batch_follows_the_weights():
    method = Fixed({"en": 0.5, "hi": 0.25, "de": 0.25})
    state = method.init(("en", "hi", "de"), 0)
    assert method.allocate(state, 9, 16).tolist() == [8, 4, 4]


def test_weights_are_found_by_name_not_by_place():
    method = Fixed({"de": 0.25, "en": 0.75})
    state = method.init(("en", "de"), 0)
    assert method.weights(state, 0).tolist() == [0.75, 0.25]


def test_weights_that_do_not_sum_to_one_are_divided_by_their_sum():
    method = Fixed({"en": 3, "hi": 1})
    assert method.weights(method.init(("en", "hi"), 0), 0).tolist() == [0.75, 0.25]


def test_doremis_printed_column_which_sums_to_104_percent_is_normalised():
    printed = dict(zip(GLAM, (0.51, 0.05, 0.22, 0.04, 0.20, 0.02), strict=True))
    assert sum(printed.values()) == pytest.approx(1.04)
    method = Fixed(printed)
    state = method.init(GLAM, 0)
    assert method.weights(state, 0)[0].item() == pytest.approx(0.51 / 1.04)
    assert method.allocate(state, 0, 256).tolist() == [126, 12, 54, 10, 49, 5]


def test_a_domain_without_a_weight_and_a_weight_without_a_domain_are_refused():
    with pytest.raises(InputError) as caught:
        Fixed({"en": 1, "hindi": 1}).init(("en", "hind"), 0)
    assert "'hindi' is unknown: did you mean 'hind'?" in str(caught.value)
    assert "domain 'hind' has no weight" in str(caught.value)


def test_a_mixture_that_other_runs_found_takes_the_place_of_written_weights():
    method = registry.build("fixed", {"mixture": "doremi"}, "run.json: method")
    found = method.informed(Facts({}, 100, mixture={"en": 0.75, "hi": 0.25}))
    assert found == Fixed({"en": 0.75, "hi": 0.25})
    with pytest.raises(InputError, match="'doremi' were not given to the run"):
        method.informed(Facts({}, 100))


@pytest.mark.parametrize("values", [{}, {"weights_by_domain": {"en": 1}, "mixture": "doremi"}])
def test_weights_come_from_one_place(values):
    with pytest.raises(InputError, match="give either these or a mixture"):
        registry.build("fixed", values, "run.json: method")
