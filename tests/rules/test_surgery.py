"""Surgeons: what holds for each, answers that are known, and the authors' algorithms."""

import itertools
import math

import arrays
import numpy as np
import pytest
from arrays import NAMES, assert_close, combined, matrix, observed, vector
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pike_mixing.interface import Signals
from pike_mixing.numerics.simplex import keys_for_shuffling, shuffled_others
from pike_mixing.rules.adatask import AdaTask
from pike_mixing.rules.surgery import (
    MGDA,
    CAGrad,
    GradVaccine,
    NashMTL,
    PCGrad,
    UPGrad,
    gramian_and_present_domains,
)
from pike_mixing.settings import parse_settings

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
def unlike_gradients(draw, conflicts=(-1.0, 0.0, 2.0)):
    """K gradients of 8 numbers, between mostly opposed and mostly aligned, of unlike lengths."""
    K, seed = draw(st.integers(1, 6)), draw(st.integers(0, 2**31))
    generator = np.random.default_rng(seed)
    gradient_KxD = generator.standard_normal((K, 8))
    gradient_KxD[: K // 2] += draw(st.sampled_from(conflicts))
    gradient_KxD[K // 2 :] += abs(draw(st.sampled_from(conflicts)))
    return gradient_KxD * 10 ** (2 * generator.random((K, 1)))


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
@given(unlike_gradients(), st.floats(-3, 3))
def test_longer_gradients_have_the_same_coefficients(surgeon, gradient_KxD, magnitude):
    once_K = combined(surgeon, gradient_KxD)
    other_K = combined(surgeon, gradient_KxD * 10**magnitude)
    assert_close(other_K, once_K, rtol=1e-5, atol=1e-7)


@every_surgeon
@few
@given(unlike_gradients(), st.data())
def test_an_absent_domain_has_no_coefficient_and_no_say(surgeon, gradient_KxD, data):
    K = len(gradient_KxD)
    absent = data.draw(st.integers(0, K))
    there = np.arange(K + 1) != absent
    gram_KxK, loss_K = np.full((K + 1, K + 1), np.nan), np.full(K + 1, np.nan)
    gram_KxK[np.ix_(there, there)] = gradient_KxD @ gradient_KxD.T
    loss_K[there] = np.arange(1, K + 1)
    state = surgeon.init((*NAMES[:absent], "nobody", *NAMES[absent:K]), 3)
    signals = arrays.seen(4, gram_KxK=gram_KxK, loss_K=loss_K)
    coefficient_K = surgeon.gradient_coefficients(state, signals)
    assert coefficient_K[absent] == 0
    assert np.array_equal(coefficient_K[there], combined(surgeon, gradient_KxD))


@every_surgeon
def test_a_domain_with_nothing_to_say_is_left_out(surgeon):
    gradient_KxD = np.array([[1.0, 2], [0, 0]], dtype=np.float64)
    assert combined(surgeon, gradient_KxD).tolist() == pytest.approx([1, 0])


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


def test_a_cosine_above_one_is_brought_back():
    # The eigenvalues 2.1 and -0.1 of the cosines become 2.1 and 0: cosine 1.05 / 1.05.
    gram_PxP, _ = gramian_and_present_domains(arrays.seen(gram_KxK=matrix([4, 4.4], [4.4, 4])))
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


TWO = matrix([2, 0], [-1, 1])
"""Gradients of lengths 2 and sqrt(2), of product -2."""


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        # g_1' = g_1 + g_2 and g_2' = g_2 + g_1 / 2, and their mean.
        (PCGrad(), [0.75, 1]),
        (GradVaccine(), [0.75, 1]),
        (UPGrad(), [0.75, 1]),
        # w_1 = g_2 . (g_2 - g_1) / |g_1 - g_2|^2 = 4 / 10.
        (MGDA(), [0.4, 0.6]),
        (CAGrad(c=0), [0.5, 0.5]),
        # The slope is positive everywhere: w = (0, 1), r / |g_2| = 0.4 sqrt(1/2) / sqrt(2) = 0.2.
        (CAGrad(c=0.4), [0.5 / 1.4, 0.7 / 1.4]),
        # alpha_1 (4 alpha_1 - 2 alpha_2) = 1 = alpha_2 (2 alpha_2 - 2 alpha_1): alpha_k |g_k| is
        # even, alpha_1^2 = 1 / (4 - 2 sqrt(2)).
        (NashMTL(scale="reference"), [(4 - 8**0.5) ** -0.5, (2 - 2**0.5) ** -0.5]),
        (NashMTL(), [1 / (1 + 2**0.5), 2**0.5 / (1 + 2**0.5)]),
    ],
)
def test_two_conflicting_gradients_by_hand(method, expected):
    assert combined(method, TWO).tolist() == pytest.approx(expected, rel=1e-6)


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


@st.composite
def many_gradients(draw):
    """Up to 24 gradients, in few dimensions with a sum of 0 between them, of unlike lengths."""
    generator = np.random.default_rng(draw(st.integers(0, 2**31)))
    K, D = draw(st.integers(1, 24)), draw(st.integers(1, 30))
    length_K = 10 ** (draw(st.floats(0, 4)) * generator.random((K, 1)))
    return generator.standard_normal((K, D)) * length_K


@effort(max_examples=50)
@given(many_gradients())
def test_no_gradient_is_behind_the_shortest_vector_between_them(gradient_KxD):
    weights_K = combined(MGDA(), gradient_KxD)
    assert weights_K.min() >= 0
    assert weights_K.sum().item() == pytest.approx(1)
    # Each reaches as far along the update as the update itself, or the way to it would lead nearer
    # to 0.
    update_D, length_K = weights_K @ gradient_KxD, np.linalg.norm(gradient_KxD, axis=1)
    length = np.linalg.norm(update_D) + 1e-5 * length_K.max()
    assert (gradient_KxD @ update_D >= update_D @ update_D - 2e-5 * length_K * length).all()


@effort(max_examples=50)
@given(many_gradients(), st.floats(0.01, 0.95))
def test_no_update_in_the_ball_is_better_for_the_worst_domain(gradient_KxD, c):
    mean_D, length_K = gradient_KxD.mean(axis=0), np.linalg.norm(gradient_KxD, axis=1)
    coefficient_K = combined(CAGrad(c=c, scale="reference"), gradient_KxD)
    update_D = coefficient_K @ gradient_KxD
    assert np.linalg.norm(update_D - mean_D) <= c * np.linalg.norm(mean_D) * (1 + 1e-6)
    # It leaves the mean towards those alone that gain least.
    weight_K, gain_K = coefficient_K - 1 / len(gradient_KxD), gradient_KxD @ update_D
    assert weight_K.min() >= -1e-9
    spare_K = (gain_K - gain_K.min()) / length_K
    assert weight_K / weight_K.sum() @ spare_K <= 1e-4 * np.linalg.norm(mean_D)


def test_gradients_whose_mean_is_zero_move_nothing():
    gradient_KxD = matrix([1, 0], [-1, 0])
    assert (combined(CAGrad(), gradient_KxD) @ gradient_KxD).tolist() == [0, 0]


@given(st.integers(0, 2**31), st.integers(1, 6), st.floats(-3, 3))
@effort(max_examples=25)
def test_every_weight_is_the_inverse_of_its_gain(seed, K, magnitude):
    generator = np.random.default_rng(seed)
    gradient_KxD = generator.standard_normal((K, 20)) * 10**magnitude
    alpha_K = combined(NashMTL(scale="reference"), gradient_KxD)
    update_D = alpha_K @ gradient_KxD
    assert (alpha_K * (gradient_KxD @ update_D)).tolist() == pytest.approx([1] * K, rel=1e-8)
    assert np.linalg.norm(update_D).item() == pytest.approx(K**0.5)
    # On Mix's scale the weights keep their proportions.
    mix_K = combined(NashMTL(), gradient_KxD)
    assert_close(mix_K, alpha_K / alpha_K.sum())


@pytest.mark.parametrize("second", [[-1, 0], [-3, 0], [-1, 1e-9]])
def test_opposite_gradients_have_no_bargain_and_are_an_error(second):
    with pytest.raises(InputError, match=r"step 4: nash-mtl found no coefficients.*opposite"):
        combined(NashMTL(), matrix([1, 0], second))


def test_gradients_at_a_wide_angle_still_have_one():
    alpha_K = combined(NashMTL(), matrix([1, 0], [-1, 0.01]))
    assert alpha_K.tolist() == pytest.approx([0.5, 0.5], rel=1e-3)


@pytest.mark.slow
def test_rounding_of_opposite_gradients_does_no_harm():
    # Products of float32 numbers: the matrix of cosines is singular but for their rounding.
    generator, method = np.random.default_rng(0), UPGrad()
    for _ in range(60):
        pairs_3xD = generator.standard_normal((3, 60), dtype=np.float32)
        own_D = generator.standard_normal(60, dtype=np.float32)
        gradient_KxD = np.stack([*pairs_3xD, *-pairs_3xD, own_D])
        signals = Signals(
            step=0, batch_rows=7, gram_KxK=(gradient_KxD @ gradient_KxD.T).astype(float)
        )
        update_D = (
            method.gradient_coefficients(method.init(tuple("abcdefg"), 0), signals) @ gradient_KxD
        )
        # Of the pairs nothing is left; of the seventh, what is orthogonal to them.
        shadow_D = np.linalg.lstsq(pairs_3xD.T, own_D)[0] @ pairs_3xD
        assert_close(update_D, (own_D - shadow_D) / 7, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("K", [2, 3, 6])
def test_scipy_agrees(K):
    optimize = pytest.importorskip("scipy.optimize")
    for seed in range(10):
        generator = np.random.default_rng(seed)
        length_Kx1 = 10 ** (2 * generator.random((K, 1)))
        gradient_KxD = generator.standard_normal((K, 4)) * length_Kx1
        nearest = []
        for own_D in gradient_KxD:
            # The projection of g onto the dual cone is g plus the residual's cone part: NNLS.
            raised, _ = optimize.nnls(gradient_KxD.T, -own_D)
            nearest.append(own_D + np.array(raised) @ gradient_KxD)
        expected_D = np.stack(nearest).mean(axis=0)
        assert_close(combined(UPGrad(), gradient_KxD) @ gradient_KxD, expected_D)


def gram_of(gradient_KxD, step=0):
    return Signals(step=step, batch_rows=4, gram_KxK=gradient_KxD @ gradient_KxD.T)


def after(method, *gradients):
    """The state after steps with these gradients."""
    return observed(method, *(gram_of(g_KxD, step) for step, g_KxD in enumerate(gradients)))


SAME, ORTHOGONAL = matrix([1, 0], [1, 0]), matrix([1, 0], [0, 1])


def test_a_gradient_is_turned_up_to_the_target():
    # Target 1/2, cosine 0: g1' = g1 + (1/2) / sqrt(3/4) g2, and so for g2'.
    method = GradVaccine(beta=0.5)
    coefficient_K = method.gradient_coefficients(after(method, SAME), gram_of(ORTHOGONAL, 1))
    assert coefficient_K.tolist() == pytest.approx([(1 + 1 / math.sqrt(3)) / 2] * 2)
    whole = GradVaccine(beta=0.5, scale="reference")
    coefficient_K = whole.gradient_coefficients(after(whole, SAME), gram_of(ORTHOGONAL, 1))
    assert coefficient_K.tolist() == pytest.approx([1 + 1 / math.sqrt(3)] * 2)


def test_a_high_target_is_cut():
    # After 50 identical batches the target is 1, for which no finite turn is enough.
    method = GradVaccine(beta=0.5, highest_target=0.6)
    state = after(method, *[SAME] * 50)
    assert state["target_KxK"][0, 1] == pytest.approx(1)
    # 0.6 / sqrt(1 - 0.36) = 3/4.
    coefficient_K = method.gradient_coefficients(state, gram_of(ORTHOGONAL, 50))
    assert coefficient_K.tolist() == pytest.approx([(1 + 0.75) / 2] * 2)


def cosine_similarity(first_D, second_D):
    return first_D @ second_D / np.linalg.norm(first_D) / np.linalg.norm(second_D)


def by_the_algorithm(gradient_KxD, target_KxK, orders, beta):
    """Algorithm 1 on the gradients themselves; changes the targets in place."""
    total_D = np.zeros_like(gradient_KxD[0])
    for i, (own_D, order) in enumerate(zip(gradient_KxD, orders, strict=True)):
        altered_D = own_D.copy()
        for j in order:
            other_D, target = gradient_KxD[j], target_KxK[i, j].item()
            cosine = cosine_similarity(altered_D, other_D)
            if cosine < target:
                sine, target_sine = math.sqrt(1 - cosine**2), math.sqrt(1 - target**2)
                turn = target * sine - cosine * target_sine
                factor = np.linalg.norm(altered_D) * turn / (np.linalg.norm(other_D) * target_sine)
                altered_D = altered_D + factor * other_D
            target_KxK[i, j] = (1 - beta) * target + beta * cosine
        total_D += altered_D
    return total_D


@pytest.mark.parametrize(
    ("method", "beta"),
    [
        # Targets stay 0.
        (PCGrad(scale="reference"), 0),
        (GradVaccine(beta=0.3, scale="reference", highest_target=0.999), 0.3),
    ],
)
@given(st.integers(0, 2**31), st.integers(1, 6))
@effort(max_examples=12)
def test_the_gramian_is_enough(method, beta, seed, K):
    generator = np.random.default_rng(seed)
    state, target_KxK = method.init(NAMES[:K], 3), np.zeros((K, K))
    for step in range(9):
        gradient_KxD = generator.standard_normal((K, 4)) + 0.5
        order = shuffled_others(keys_for_shuffling(NAMES[:K], 3), step)
        expected_D = by_the_algorithm(gradient_KxD, target_KxK, order, beta)
        update_D = method.gradient_coefficients(state, gram_of(gradient_KxD, step)) @ gradient_KxD
        assert_close(update_D, expected_D)
        state = method.observe(state, gram_of(gradient_KxD, step))
        assert_close(state.get("target_KxK", np.zeros((K, K))), target_KxK)


def test_an_absent_domain_keeps_its_targets():
    method = GradVaccine(beta=0.5)
    state = after(method, matrix([1, 0], [1, 0], [1, 0]))
    gram_KxK = matrix([1, 0, math.nan], [0, 1, math.nan], [math.nan] * 3)
    state = method.observe(state, Signals(step=1, batch_rows=4, gram_KxK=gram_KxK))
    rows = [[0, 0.25, 0.5], [0.25, 0, 0.5], [0.5, 0.5, 0]]
    assert_close(state["target_KxK"], matrix(*rows))


def test_opposite_gradients_vanish_without_harm():
    gradient_KxD = matrix([1, 0], [-2, 0], [0, 1])
    method = GradVaccine(beta=0.5)
    coefficient_K = method.gradient_coefficients(
        method.init(("a", "b", "c"), 0), gram_of(gradient_KxD)
    )
    # Of the first two nothing is left, the third stays: the update is its third.
    assert_close(coefficient_K @ gradient_KxD, matrix([0, 1 / 3])[0])
    assert np.isfinite(after(method, gradient_KxD, gradient_KxD)["target_KxK"]).all()


FOUR = ("code", "prose", "tables", "web")


def test_each_domain_visits_all_others_in_an_order_by_name_seed_and_step():
    first = {0: [], 1: []}
    for seed, step in itertools.product(first, range(30)):
        there = shuffled_others(keys_for_shuffling(FOUR, seed), step)
        assert [sorted([i, *order]) for i, order in enumerate(there)] == [[0, 1, 2, 3]] * 4
        back = shuffled_others(keys_for_shuffling(FOUR[::-1], seed), step)
        assert [[3 - j for j in order] for order in back[::-1]] == there
        first[seed].append(tuple(there[0]))
    # All six orders of three others come up, with another seed at other steps.
    assert len(set(first[0])) == len(set(first[1])) == 6
    assert first[0] != first[1]


def adatask_coefficients(*counts, **settings):
    method = parse_settings(AdaTask, settings, "adatask")
    state = method.init(tuple("abc"[: len(counts)]), 0)
    signals = Signals(step=0, batch_rows=sum(counts), count_K=np.array(counts))
    return method.gradient_coefficients(state, signals).tolist()


def test_steps_of_domains_with_rows_are_averaged_and_the_authors_add_them_up():
    assert adatask_coefficients(3, 3, 2) == pytest.approx([1 / 3] * 3)
    assert adatask_coefficients(1, 0, 1) == [0.5, 0, 0.5]
    assert adatask_coefficients(3, 3, 2, scale="reference") == [1, 1, 1]
    assert adatask_coefficients(1, 0, 1, scale="reference") == [1, 0, 1]
