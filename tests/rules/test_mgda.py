import pytest
from arrays import combined, matrix, vector

from pike_mixing.errors import InputError
from pike_mixing.rules.surgery import MGDA

ACROSS = matrix([1, 0], [0, 2])


def test_without_a_conflict_the_smallest_gradient_gets_all():
    assert combined(MGDA(), matrix([1, 0], [2, 1])).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("normalise", "expected"),
    [
        # Weights as 1 / |g|^2: 1 against 1/4.
        ("none", [0.8, 0.2]),
        # (1, 0) and (0, 1): even.
        ("l2", [0.5, 0.5]),
        # Losses 1 and 4 make (1, 0) and (0, 1/2) of them: 1 against 4.
        ("loss", [0.2, 0.8]),
        # Losses times lengths 1 and 8 make (1, 0) and (0, 1/4): 1 against 16.
        ("loss+", [1 / 17, 16 / 17]),
    ],
)
def test_the_shorter_of_two_orthogonal_gradients_weighs_more(normalise, expected):
    found = combined(MGDA(normalise=normalise), ACROSS, loss_K=vector(1, 4))
    assert found.tolist() == pytest.approx(expected)


def test_a_loss_of_zero_cannot_normalise():
    with pytest.raises(InputError, match=r"step 4.*normalise: loss.*not positive"):
        combined(MGDA(normalise="loss"), ACROSS, loss_K=vector(1, 0))
