import pytest

from pike_mixing.errors import InputError
from pike_mixing.rules.single import Single


def test_the_whole_batch_is_of_the_one_domain():
    state = Single("hi").init(("en", "hi", "de"), 0)
    assert Single("hi").allocate(state, 3, 256).tolist() == [0, 256, 0]
    assert Single("hi").weights(state, 3).tolist() == [0.0, 1.0, 0.0]


def test_a_domain_that_is_not_there_is_refused_with_the_nearest_name():
    with pytest.raises(InputError, match=r"'english' is unknown: did you mean 'englisch'\?"):
        Single("english").init(("englisch", "hindi"), 0)
