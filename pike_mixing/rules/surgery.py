"""Rules that combine the domains' gradients by their inner products: gradient surgery.

A surgeon combines the gradients g_k into one, sum_k c_k g_k, with coefficients that are a function
of the Gramian G_jk = g_j . g_k alone, as it sees it: of the domains in the batch, with no negative
eigenvalue.

Shapes: K domains, P of them with a gradient.
"""

import abc
import dataclasses
from typing import ClassVar, Literal

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.interface import Needs, Signals, State
from pike_mixing.numerics.simplex import (
    ENTER,
    RIDGE,
    TOLERANCE,
    keys_for_shuffling,
    lowest_point,
    shuffled_others,
)
from pike_mixing.rules.static import Mix
from pike_mixing.setting_limits import PositiveShare, ShareBelowOne

Scale = Literal["mix", "reference"]
"""Factor of the update. mix: where all domains have the same gradient, the update is that gradient,
as in Mix, so that one learning rate, weight decay and clipping fit every method. reference: the
factor of the method's authors, for which the same gradients can give K times as much."""


@dataclasses.dataclass(frozen=True)
class Surgeon(Mix):
    """Mix, whose update sum_k c_k g_k has coefficients that are a function of the Gramian."""

    def needs(self) -> Needs:
        """The Gramian of every batch."""
        return Needs(gramian=True)

    def gradient_coefficients(self, state: State, signals: Signals) -> Floats:
        """Coefficients c_K of `coefficients`; 0 for a domain without a gradient."""
        gram_PxP, present_P = gramian_and_present_domains(signals)
        coefficient_K = np.zeros(len(state["weights_K"]))
        if len(present_P):
            coefficient_K[present_P] = self.coefficients(gram_PxP, present_P, state, signals)
        return coefficient_K

    @abc.abstractmethod
    def coefficients(
        self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals
    ) -> Floats:
        """Coefficients c_P of the domains with a gradient.

        Args:
            gram_PxP: Inner products of their gradients.
            present_P: Their indices among the K domains.
            state: The method's state before the step.
            signals: Those of the step.

        Raises:
            InputError: there is no solution.
        """


def gramian_and_present_domains(signals: Signals) -> tuple[Floats, Ints]:
    """Gramian of the domains that have a gradient (P x P), and their indices.

    A domain has none when the batch has no rows of it (NaN) or when its gradient is zero: its
    squared length is below the smallest number that a float64 holds in full, 2.2e-308, which no
    gradient of float32 is. NaN of a domain with rows was refused before (`signal_checks`).
    """
    gram_KxK = signals.gram_KxK
    assert gram_KxK is not None, "a method that needs a Gramian was given none"
    # NaN >= 0 is False.
    present_P = np.flatnonzero(gram_KxK.diagonal() >= np.finfo(np.float64).tiny)
    gram_PxP = gram_KxK[present_P][:, present_P]
    norm_P = np.sqrt(gram_PxP.diagonal())
    lengths_PxP = np.outer(norm_P, norm_P)
    if not (np.isfinite(gram_PxP) & (np.abs(gram_PxP) / 2 <= lengths_PxP)).all():
        raise InputError(
            f"step {signals.step}: an inner product of the domains' gradients is not a finite "
            "number, or beyond the product of their lengths: lower training.peak_learning_rate or "
            "lengthen training.warmup_steps; the checkpoints before this step are sound"
        )
    return _without_negative_eigenvalues(gram_PxP, lengths_PxP), present_P


def convergence_error(rule: str, step: int, why: str) -> InputError:
    """The error of a solver that found no coefficients. There are no others to fall back on."""
    return InputError(
        f"step {step}: {rule} found no coefficients for the domains' gradients: {why}. Nearly "
        "opposite gradients do this, or a training that diverges: lower "
        "training.peak_learning_rate, give the batch more rows, or train with another rule; the "
        "checkpoints before this step are sound"
    )


def _without_negative_eigenvalues(gram_PxP: Floats, lengths_PxP: Floats) -> Floats:
    """The Gramian without negative eigenvalues, or itself when it has none.

    Products of float32 gradients are off by some 1e-7 |g_j| |g_k|. Where gradients nearly coincide
    the matrix of cosines has eigenvalues below that, which can come out negative.
    """
    if not len(gram_PxP):
        return gram_PxP
    eigenvalue_P, vector_PxP = np.linalg.eigh(gram_PxP / lengths_PxP)
    if eigenvalue_P[0] >= 0:
        return gram_PxP
    return (vector_PxP * eigenvalue_P.clip(min=0)) @ vector_PxP.T * lengths_PxP


@dataclasses.dataclass(frozen=True)
class MGDA(Surgeon):
    """Mix, where the update is the shortest vector between the domains' gradients.

    The weights of the gradients are non-negative and sum to 1, which is Mix's scale and the
    authors' too. Where gradients hardly conflict, the domain with the smallest one gets most.
    MGDA (Desideri 2012; Sener and Koltun 2018, "Multi-Task Learning as Multi-Objective ...").
    """

    about: ClassVar[str] = (
        "Equal shares; the update is the shortest vector between the domains' gradients."
    )

    normalise: Literal["none", "l2", "loss", "loss+"] = "none"
    """Each gradient is divided by n_k before the weights are sought: 1; its length |g_k|; its loss
    L_k; or L_k |g_k|. The weights then apply to the gradients as they are, as the authors do."""

    def needs(self) -> Needs:
        """The Gramian of every batch, and the losses that gradients are divided by."""
        return Needs(gramian=True, losses=self.normalise in ("loss", "loss+"))

    def coefficients(
        self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals
    ) -> Floats:
        """Weights that minimise |sum_k w_k g_k / n_k|^2, equation (3) of Sener and Koltun."""
        n_P = self._gradient_divisors(gram_PxP, signals, present_P)
        point = lowest_point(np.zeros(len(n_P)), 1.0, gram_PxP / np.outer(n_P, n_P))
        if not point.is_optimal:
            why = f"the shortest vector is off by {point.excess:.1g}"
            raise convergence_error("mgda", signals.step, why)
        return point.weights_P

    def _gradient_divisors(self, gram_PxP: Floats, signals: Signals, present_P: Ints) -> Floats:
        norm_P = np.sqrt(gram_PxP.diagonal())
        if self.normalise == "none":
            return np.ones_like(norm_P)
        if self.normalise == "l2":
            return norm_P
        assert signals.loss_K is not None, "checked: `needs`"
        loss_P = signals.loss_K[present_P]
        if not (loss_P > 0).all():
            raise InputError(
                f"step {signals.step}: normalise: {self.normalise} divides by the domains' losses, "
                "and one of them is not positive: set normalise: none or l2"
            )
        return loss_P * norm_P if self.normalise == "loss+" else loss_P


@dataclasses.dataclass(frozen=True)
class CAGrad(Surgeon):
    """Mix, where the update is best for the worst domain within a ball around the mean gradient.

    CAGrad (Liu et al. 2021, "Conflict-Averse Gradient Descent", Algorithm 1).
    """

    about: ClassVar[str] = (
        "Equal shares; the update is near the mean gradient and best for the domain that gains "
        "least."
    )

    c: ShareBelowOne = 0.4
    """Radius of the ball in lengths of the mean gradient; 0 is the mean gradient itself."""
    scale: Scale = "mix"
    """mix: the update divided by 1 + c; reference: the update of Algorithm 1."""

    def coefficients(
        self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals
    ) -> Floats:
        """Coefficients of g_0 + sqrt(phi) / |g_w| g_w, with g_0 the mean gradient.

        sqrt(phi) = c |g_0|, and w minimises g_w . g_0 + sqrt(phi) |g_w| over the simplex.
        """
        mean_P = np.full(len(gram_PxP), 1 / len(gram_PxP))
        dot_P = gram_PxP @ mean_P
        radius = self.c * max(float(mean_P @ dot_P), 0.0) ** 0.5
        shrink = 1 + self.c if self.scale == "mix" else 1.0
        if radius == 0:
            return mean_P / shrink
        point = lowest_point(dot_P, radius, gram_PxP)
        if not point.is_optimal:
            why = f"the weights are off by {point.excess:.1g}"
            raise convergence_error("cagrad", signals.step, why)
        return (mean_P + radius / point.length * point.weights_P) / shrink


ENOUGH_DECREMENT = 1e-10
"""Newton's decrement at which alpha_k (G alpha)_k = 1 holds as well as can be."""
BARGAIN_TOLERANCE = 1e-6
"""Rounding may end it at a larger one, where gradients nearly cancel; up to this it is accepted."""
NEWTON_STEPS = 200
"""Ten are usual; each may no more than double a weight."""
OPPOSITE = 1e6
"""Parts alpha_k |g_k| this long, of an update of length sqrt(K), cancel to within rounding."""


@dataclasses.dataclass(frozen=True)
class NashMTL(Surgeon):
    """Mix, where the domains bargain for the update: each gains in proportion to its own terms.

    Nash-MTL (Navon et al. 2022, "Multi-Task Learning as a Bargaining Game", Algorithm 1).
    """

    about: ClassVar[str] = "Equal shares; the domains bargain for the direction of the update."

    scale: Scale = "mix"
    """mix: weights divided by their sum; reference: weights alpha with G alpha = 1 / alpha, for
    which the update's length is sqrt(K), whatever the lengths of the gradients. The authors' code
    (nash-mtl cce1840, `weight_methods.py`: `max_norm` is 1.0) then clips it to length 1, as LibMTL
    and TorchJD do: clip to 1 for the same. Theirs is an approximation in 20 convex programs."""

    def coefficients(
        self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals
    ) -> Floats:
        """Weights alpha > 0 with G alpha = 1 / alpha, equation (2) of the paper."""
        alpha_P, decrement = nash_bargain_and_decrement(gram_PxP)
        if decrement > BARGAIN_TOLERANCE:
            why = f"their bargain is off by {decrement:.1g}"
            raise convergence_error("nash-mtl", signals.step, why)
        return alpha_P / alpha_P.sum() if self.scale == "mix" else alpha_P


def nash_bargain_and_decrement(gram_PxP: Floats) -> tuple[Floats, float]:
    """Solution of G alpha = 1 / alpha, and the last Newton decrement.

    It is the minimum of the self-concordant alpha . G alpha / 2 - sum_k log alpha_k, on which
    damped Newton steps converge from anywhere. A step in log alpha solves
    (A G A + 1) x = 1 - A G alpha with A = diag(alpha), whose matrix is well conditioned for
    Gramians of any rank. Only gradients of which some positive combination is zero have no minimum.
    """
    norm_P = np.sqrt(gram_PxP.diagonal())
    one_PxP = np.eye(len(norm_P))
    # The solution for identical gradients.
    alpha_P = 1 / (norm_P * len(norm_P) ** 0.5)
    decrement = np.inf
    for _ in range(NEWTON_STEPS):
        bargain_PxP = gram_PxP * np.outer(alpha_P, alpha_P)
        rest_P = 1 - bargain_PxP.sum(axis=1)
        x_P = np.linalg.solve(bargain_PxP + one_PxP, rest_P)
        decrement = max(float(x_P @ rest_P), 0.0) ** 0.5
        if decrement <= ENOUGH_DECREMENT or (alpha_P * norm_P).max() > OPPOSITE:
            break
        alpha_P = alpha_P * (1 + x_P / (1 + decrement if decrement > 0.25 else 1))
    return alpha_P, decrement


@dataclasses.dataclass(frozen=True)
class PCGrad(Surgeon):
    """Mix, where a gradient loses what it has against another domain's.

    Without a conflict (no negative inner product) the update is the mean of the domains' gradients.
    PCGrad (Yu et al. 2020, "Gradient Surgery for Multi-Task Learning", Algorithm 1).
    """

    about: ClassVar[str] = (
        "Equal shares; where two domains' gradients conflict, the conflicting part is removed."
    )

    scale: Scale = "mix"
    """mix: mean of the K altered gradients; reference: their sum."""

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Weights 1/K, and keys for the random order of the projections."""
        return {**super().init(domains, seed), "key_K": keys_for_shuffling(domains, seed)}

    def coefficients(
        self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals
    ) -> Floats:
        """Coefficients of the sum of the projected gradients, lines 8-9."""
        order = shuffled_others(state["key_K"][present_P], signals.step)
        sum_P = coefficients_of_each_projected_gradient(gram_PxP, order).sum(axis=0)
        return sum_P / len(sum_P) if self.scale == "mix" else sum_P


def coefficients_of_each_projected_gradient(gram_PxP: Floats, orders: list[list[int]]) -> Floats:
    """Lines 2-7 for all i: g'_i = sum_j a_ij g_j as the coefficients a_PxP.

    Starting from g'_i = g_i, for j in random order: if g'_i . g_j < 0,
    g'_i <- g'_i - (g'_i . g_j) / |g_j|^2 g_j, with the original g_j.
    """
    a_PxP = np.eye(len(gram_PxP))
    for a_P, order in zip(a_PxP, orders, strict=True):
        for j in order:
            dot = a_P @ gram_PxP[j]
            if dot < 0:
                a_P[j] -= dot / gram_PxP[j, j]
    return a_PxP


VANISHED = 1e-9
"""A gradient that shrank to this part of its length has no direction left to turn."""


@dataclasses.dataclass(frozen=True)
class GradVaccine(Surgeon):
    """Mix, where a gradient is turned to its usual angle with another domain's.

    The usual cosine of a pair is a moving average from 0 on. PCGrad is the case of a target 0.
    GradVaccine (Wang et al. 2021, "Gradient Vaccine", Algorithm 1), the whole model as one group.
    """

    about: ClassVar[str] = (
        "Equal shares; gradients are turned towards the angle that they usually have with each "
        "other."
    )

    beta: PositiveShare = 0.01
    """Weight of the newest cosine in the moving average."""
    highest_target: ShareBelowOne = 0.9
    """Targets above this count as this. A gradient orthogonal to one of the same length gets
    rho / sqrt(1 - rho^2) of it added: 2 at a target rho of 0.9, 7 at 0.99."""
    scale: Scale = "mix"
    """mix: mean of the K altered gradients; reference: their sum."""

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Weights 1/K, keys for the random order, and targets 0."""
        K = len(domains)
        return {
            **super().init(domains, seed),
            "key_K": keys_for_shuffling(domains, seed),
            "target_KxK": np.zeros((K, K)),
        }

    def coefficients(
        self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals
    ) -> Floats:
        """Coefficients of the sum of the turned gradients."""
        sum_P = self._turned_gradients_and_targets(state, signals.step, gram_PxP, present_P)[0].sum(
            axis=0
        )
        return sum_P / len(sum_P) if self.scale == "mix" else sum_P

    def observe(self, state: State, signals: Signals) -> State:
        """The moving averages after the visits of this step; pairs with an absent domain stay."""
        if signals.gram_KxK is None:
            return state
        gram_PxP, present_P = gramian_and_present_domains(signals)
        target_KxK = state["target_KxK"].copy()
        _, target_PxP = self._turned_gradients_and_targets(state, signals.step, gram_PxP, present_P)
        target_KxK[present_P[:, None], present_P] = target_PxP
        return {**state, "target_KxK": target_KxK}

    def _turned_gradients_and_targets(
        self, state: State, step: int, gram_PxP: Floats, present_P: Ints
    ) -> tuple[Floats, Floats]:
        target_PxP = state["target_KxK"][present_P[:, None], present_P]
        order = shuffled_others(state["key_K"][present_P], step)
        return turned_gradients_and_targets(
            gram_PxP, target_PxP, order, beta=self.beta, highest_target=self.highest_target
        )


def turned_gradients_and_targets(
    gram_PxP: Floats,
    target_PxP: Floats,
    orders: list[list[int]],
    *,
    beta: float,
    highest_target: float,
) -> tuple[Floats, Floats]:
    """For all i, g'_i = sum_j a_ij g_j as the coefficients a_PxP; and the next targets.

    Starting from g'_i = g_i, for j in random order: with rho = cos(g'_i, g_j) and its target
    rho*, if rho < rho*,

        g'_i <- g'_i + |g'_i| (rho* sqrt(1 - rho^2) - rho sqrt(1 - rho*^2))
                       / (|g_j| sqrt(1 - rho*^2)) g_j

    which gives g'_i the cosine rho* with g_j; then rho* <- (1 - beta) rho* + beta rho. Targets
    above the highest count as that.
    """
    a_PxP = np.eye(len(gram_PxP))
    next_PxP = target_PxP.copy()
    norm = np.sqrt(gram_PxP.diagonal()).tolist()
    for i, (a_P, order) in enumerate(zip(a_PxP, orders, strict=True)):
        for j in order:
            dot_P = gram_PxP @ a_P
            length = max(float(a_P @ dot_P), 0.0) ** 0.5
            if length <= VANISHED * norm[i]:
                break
            rho = min(max(float(dot_P[j]) / (length * norm[j]), -1.0), 1.0)
            target = min(float(target_PxP[i, j]), highest_target)
            if rho < target:
                sine, target_sine = (1 - rho**2) ** 0.5, (1 - target**2) ** 0.5
                turn = (target * sine - rho * target_sine) / target_sine
                a_P[j] += turn * length / norm[j]
            next_PxP[i, j] += beta * (rho - next_PxP[i, j])
    return a_PxP, next_PxP


@dataclasses.dataclass(frozen=True)
class UPGrad(Surgeon):
    """Mix, where each gradient is moved as little as makes it conflict with no domain's.

    The update is the mean of the moved gradients and conflicts with none: to first order no
    domain's loss rises. Without a conflict it is the mean of the gradients, which is Mix's scale
    and the authors' too. Unlike PCGrad's, its projections are onto all domains at once and need no
    order. UPGrad (Quinton and Rey 2024, "Jacobian Descent For Multi-Objective Optimization",
    section 3).
    """

    about: ClassVar[str] = (
        "Equal shares; each gradient is moved as little as makes it conflict with none."
    )

    def coefficients(
        self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals
    ) -> Floats:
        """Coefficients of the mean of the projections of the g_k onto the dual cone."""
        norm_P = np.sqrt(gram_PxP.diagonal())
        cosine_PxP = gram_PxP / np.outer(norm_P, norm_P)
        cosine_PxP += RIDGE * np.eye(len(norm_P))
        # Of unit gradients; the projection of one is as long as the gradient times it.
        parts_PxP = np.stack([dual_cone_projection(cosine_PxP, i) for i in range(len(norm_P))])
        conflict = -float((parts_PxP @ cosine_PxP).min())
        if not conflict <= TOLERANCE:
            why = f"a conflict of cosine {conflict:.1g} is left"
            raise convergence_error("upgrad", signals.step, why)
        return (norm_P @ parts_PxP) / norm_P / len(norm_P)


@np.errstate(divide="ignore", invalid="ignore")
def dual_cone_projection(cosine_PxP: Floats, i: int) -> Floats:
    """The vector nearest to g_i among those without a conflict, as coefficients r_P >= e_i.

    It minimises r . C r over r >= e_i; at the minimum no product (C r)_j is negative, and it is
    zero where r_j was raised. An active set of raised domains is walked to that point.
    """
    P = len(cosine_PxP)
    r_P = np.eye(P)[i]
    raised_P = np.zeros(P)
    active: list[int] = []
    for _ in range(20 * (P + 1)):
        entering = int((cosine_PxP @ (r_P + raised_P)).argmin())
        if entering in active or cosine_PxP[entering] @ (r_P + raised_P) >= -ENTER:
            break
        active.append(entering)
        while active:
            goal_A = np.linalg.solve(cosine_PxP[active][:, active], -cosine_PxP[active, i])
            step_A = goal_A - raised_P[active]
            limit_A = np.where(goal_A < 0, -raised_P[active] / step_A, np.inf)
            blocking = int(limit_A.argmin())
            if limit_A[blocking] > 1:
                raised_P[active] = goal_A
                break
            raised_P[active] += limit_A[blocking] * step_A
            raised_P[active.pop(blocking)] = 0
    return r_P + raised_P
