"""What holds for every surgeon, those to come included."""

import arrays
import numpy as np
import pytest
import torch
from arrays import NAMES, assert_close
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pike_mixing.interface import Signals
from pike_mixing.rules.surgery import (
    MGDA,
    CAGrad,
    GradVaccine,
    NashMTL,
    PCGrad,
    UPGrad,
    gramian_and_present_domains,
)

SURGEONS = {
    "pcgrad": PCGrad(),
    "gradvac": GradVaccine(),
    "mgda": MGDA(),
    "mgda l2": MGDA(normalise="l2"),
    "mgda loss": MGDA(normalise="loss"),
    "mgda loss+": MGDA(normalise="loss+"),
    "cagrad": CAGrad(),
    "nash-mtl": NashMTL(),
    "upgrad": UPGrad(),
}
every_surgeon = pytest.mark.parametrize("surgeon", SURGEONS.values(), ids=SURGEONS)
few = effort(max_examples=12)


@st.composite
def gradients(draw, conflicts=(-1.0, 0.0, 2.0)):
    """K gradients of 8 numbers, between mostly opposed and mostly aligned, of unlike lengths."""
    K, seed = draw(st.integers(1, 6)), draw(st.integers(0, 2**31))
    generator = np.random.default_rng(seed)
    gradient_KxD = generator.standard_normal((K, 8))
    gradient_KxD[: K // 2] += draw(st.sampled_from(conflicts))
    gradient_KxD[K // 2 :] += abs(draw(st.sampled_from(conflicts)))
    return gradient_KxD * 10 ** (2 * generator.random((K, 1)))


def signals(gradient_KxD):
    loss_K = np.arange(1.0, len(gradient_KxD) + 1, dtype=np.float64)
    return arrays.seen(gram_KxK=gradient_KxD @ gradient_KxD.T, loss_K=loss_K)


def combined(surgeon, gradient_KxD, **others):
    loss_K = np.arange(1.0, len(gradient_KxD) + 1, dtype=np.float64)
    return arrays.combined(surgeon, gradient_KxD, loss_K=loss_K, **others)


@every_surgeon
@few
@given(st.integers(1, 6), st.integers(0, 9))
def test_identical_gradients_give_the_update_of_mix(surgeon, K, step):
    if getattr(surgeon, "normalise", "none").startswith("loss"):
        K = 1
    gradient_KxD = np.array([[3.0, 4.0]], dtype=np.float64).repeat(K, axis=0)
    coefficient_K = combined(surgeon, gradient_KxD, step=step)
    assert coefficient_K.dtype == np.float64
    assert (coefficient_K @ gradient_KxD).tolist() == pytest.approx([3, 4], rel=1e-9)
    # None is preferred.
    assert coefficient_K.tolist() == pytest.approx([1 / K] * K, rel=1e-4)


@pytest.mark.parametrize("surgeon", [PCGrad(), UPGrad()], ids=["pcgrad", "upgrad"])
@few
@given(st.integers(0, 2**31), st.integers(1, 6))
def test_without_a_conflict_the_update_is_that_of_mix(surgeon, seed, K):
    gradient_KxD = np.random.default_rng(seed).random((K, 4))
    assert combined(surgeon, gradient_KxD).tolist() == pytest.approx([1 / K] * K)


@every_surgeon
@few
@given(gradients(), st.floats(-3, 3))
def test_longer_gradients_have_the_same_coefficients(surgeon, gradient_KxD, magnitude):
    once_K = combined(surgeon, gradient_KxD)
    other_K = combined(surgeon, gradient_KxD * 10**magnitude)
    assert_close(other_K, once_K, rtol=1e-5, atol=1e-7)


@every_surgeon
@few
@given(gradients(), st.data())
def test_an_absent_domain_has_no_coefficient_and_no_say(surgeon, gradient_KxD, data):
    K = len(gradient_KxD)
    absent = data.draw(st.integers(0, K))
    names = (*NAMES[:absent], "nobody", *NAMES[absent:K])
    there = np.arange(K + 1) != absent
    full = signals(gradient_KxD)
    gram_KxK = np.full((K + 1, K + 1), np.nan)
    gram_KxK[np.ix_(there, there)] = full.gram_KxK
    loss_K = np.full(K + 1, np.nan)
    loss_K[there] = full.loss_K
    partial = arrays.seen(gram_KxK=gram_KxK, loss_K=loss_K)
    coefficient_K = surgeon.gradient_coefficients(surgeon.init(names, 3), partial)
    assert coefficient_K[absent] == 0
    assert np.array_equal(
        coefficient_K[there], surgeon.gradient_coefficients(surgeon.init(NAMES[:K], 3), full)
    )


@every_surgeon
def test_a_domain_with_nothing_to_say_is_left_out(surgeon):
    gradient_KxD = np.array([[1.0, 2], [0, 0]], dtype=np.float64)
    assert combined(surgeon, gradient_KxD).tolist() == pytest.approx([1, 0])


@every_surgeon
@few
@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=6))
def test_gradients_of_one_direction_keep_it(surgeon, lengths):
    # A Gramian of rank 1.
    direction_D = np.array([0.6, 0.8], dtype=np.float64)
    gradient_KxD = np.array(lengths, dtype=np.float64)[:, None] * direction_D
    update_D = combined(surgeon, gradient_KxD) @ gradient_KxD
    assert update_D[0] > 0
    assert (update_D[1] / update_D[0]).item() == pytest.approx(4 / 3)
    assert min(lengths) * (1 - 1e-9) <= np.linalg.norm(update_D) <= max(lengths) * (1 + 1e-9)


@every_surgeon
@few
@given(st.integers(0, 2**31), st.integers(2, 6))
def test_rounding_of_nearly_identical_gradients_does_no_harm(surgeon, seed, K):
    # Off by some 1e-7 as float32 products are: the matrix has negative eigenvalues.
    generator = np.random.default_rng(seed)
    noise_KxK = generator.standard_normal((K, K)) * 1e-7
    gram_KxK = 25 * (1 + noise_KxK + noise_KxK.T)
    noisy = arrays.seen(gram_KxK=gram_KxK, loss_K=np.ones(K))
    coefficient_K = surgeon.gradient_coefficients(surgeon.init(NAMES[:K], 3), noisy)
    assert coefficient_K.sum().item() == pytest.approx(1, rel=1e-2)
    assert coefficient_K.min() >= 0


def test_a_sound_gramian_stays_bit_by_bit():
    given_one = signals(np.array([[1.0, 0.1], [0.3, 1]], dtype=np.float64))
    gram_PxP, present_P = gramian_and_present_domains(given_one)
    assert np.array_equal(gram_PxP, given_one.gram_KxK)
    assert present_P.tolist() == [0, 1]


def test_a_cosine_above_one_is_brought_back():
    # The eigenvalues 2.1 and -0.1 of the cosines become 2.1 and 0: cosine 1.05 / 1.05.
    gram_KxK = np.array([[4.0, 4.4], [4.4, 4.0]], dtype=np.float64)
    gram_PxP, _ = gramian_and_present_domains(Signals(step=0, batch_rows=4, gram_KxK=gram_KxK))
    assert_close(gram_PxP, np.full((2, 2), 4.2))


@pytest.mark.parametrize(
    ("surgeon", "setting"),
    [
        (MGDA(), "pike_mixing.numerics.simplex.TOLERANCE"),
        (CAGrad(), "pike_mixing.numerics.simplex.TOLERANCE"),
        (UPGrad(), "pike_mixing.rules.surgery.TOLERANCE"),
        (NashMTL(), "pike_mixing.rules.surgery.BARGAIN_TOLERANCE"),
    ],
)
def test_a_solver_that_does_not_converge_is_an_error(surgeon, setting, monkeypatch):
    # No tolerance is met: the search's excess is at best a rounding error.
    monkeypatch.setattr(setting, -2.0)
    with pytest.raises(InputError, match=r"step 4: [\w-]+ found no coefficients.*rule"):
        combined(surgeon, np.eye(2), step=4)


@pytest.mark.parametrize(
    ("surgeon", "name", "settings", "K", "shift", "tolerance"),
    [
        (PCGrad(scale="reference"), "PCGrad", {}, 2, 0, 1e-7),
        # Frank-Wolfe nears the shortest vector slowly.
        (MGDA(), "MGDA", {"epsilon": 1e-9, "max_iters": 300}, 3, 0.5, 0.05),
    ],
)
def test_torchjd_agrees(surgeon, name, settings, K, shift, tolerance):
    aggregation = pytest.importorskip("torchjd.aggregation")
    generator = np.random.default_rng(0)
    for _ in range(5):
        gradient_KxD = generator.standard_normal((K, 6)) + shift
        update_D = combined(surgeon, gradient_KxD) @ gradient_KxD
        theirs = getattr(aggregation, name)(**settings)
        theirs_D = theirs(torch.from_numpy(gradient_KxD)).numpy()
        assert_close(update_D, theirs_D, rtol=tolerance, atol=tolerance)
