"""The mixing law: its fit, the program for a mixture, the finder, and schedules of phases."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from known_law import DOMAINS, LAWS, UNIFORM, mixtures, optimum, proxies, swarm
from numpy.testing import assert_allclose
from scipy import optimize

from pike_mixing import make
from pike_mixing.errors import InputError
from pike_mixing.finders import convex_program, exponential_law, swarm_table
from pike_mixing.finders.convex_program import ConvexProgram, solve_with_residual
from pike_mixing.finders.cross_validation import is_outside_hull
from pike_mixing.finders.exponential_law import Laws
from pike_mixing.finders.interface import Proxy, Swarm
from pike_mixing.finders.mixing_law import MixingLaw


def fitted(weights_NxK, loss_NxK, *, starts=4, huber=0.02):
    return exponential_law.fit(weights_NxK, loss_NxK, starts=starts, huber=huber)


def test_losses_are_the_written_formula():
    # L_0 = 1 + exp(0.2 - 2) at a mixture of the first domain alone.
    assert_allclose(LAWS.losses(np.array([[1.0, 0, 0]]))[0, 0], 1 + np.exp(-1.8))


def test_no_other_start_leads_to_a_better_law():
    # Of a loss that is noise, whose cost has several valleys.
    weights_NxK = mixtures(24)
    loss_Nx1 = np.random.default_rng(9).normal(3, 0.1, (24, 1))

    def cost(starts):
        laws = fitted(weights_NxK, loss_Nx1, starts=starts)
        error_Nx1 = np.abs(laws.losses(weights_NxK) - loss_Nx1)
        below_Nx1 = np.minimum(error_Nx1, 0.02)
        return (below_Nx1 * (error_Nx1 - below_Nx1 / 2)).sum()

    assert cost(4) == pytest.approx(cost(24), rel=0.02)


def of_scipy(weights_NxK, loss_N, huber):
    """Predictions of the same law by SciPy's search from five values of c."""
    K = weights_NxK.shape[1]

    def errors(cs):
        e_N = np.exp(weights_NxK @ cs[1:])
        return np.concatenate([cs[0] + e_N - loss_N, exponential_law.RIDGE**0.5 * cs[1:]])

    starts = [np.append(c, np.zeros(K)) for c in np.linspace(0.1, 0.9, 5) * loss_N.min()]
    bounds = ([0, *[-np.inf] * K], np.inf)
    how = {"bounds": bounds, "loss": "huber", "f_scale": huber, "ftol": 1e-12, "xtol": 1e-12}
    found = [optimize.least_squares(errors, start, **how) for start in starts]
    best = min(found, key=lambda done: done.cost).x
    return best[0] + np.exp(weights_NxK @ best[1:])


@pytest.mark.parametrize("huber", [0.005, 0.02, 1e12])  # The last bounds nothing.
def test_all_losses_at_once_are_fitted_as_each_by_scipy(huber):
    # Noise, much of it beyond huber, and a loss linear in the weights, whose c is 0.
    weights_NxK = mixtures(24)
    noise_NxK = np.random.default_rng(4).normal(0, 0.02, (24, 3))
    linear_Nx1 = weights_NxK @ np.array([[1.0], [2.0], [3.0]])
    loss_Nx4 = np.column_stack([LAWS.losses(weights_NxK) + noise_NxK, linear_Nx1])
    laws = fitted(weights_NxK, loss_Nx4, huber=huber)
    assert laws.c_K[3] == 0
    for predicted_N, loss_N in zip(laws.losses(weights_NxK).T, loss_Nx4.T, strict=True):
        assert_allclose(predicted_N, of_scipy(weights_NxK, loss_N, huber), atol=1e-4)


def test_losses_that_do_not_react_to_the_mixture_are_fitted_without_running_away():
    weights_NxK = mixtures(30)
    loss_NxK = 2 + np.random.default_rng(1).normal(0, 0.01, (30, 3))
    laws = fitted(weights_NxK, loss_NxK)
    # The noise of single runs is 0.01; predictions between them are nearer to 2.
    assert np.abs(laws.losses(mixtures(100, seed=2)) - 2).mean() < 0.01


@pytest.mark.parametrize("loss", [0.5, 1.5, 50.0])
def test_a_constant_loss_is_its_own_law(loss):
    weights_NxK = mixtures(20)
    laws = fitted(weights_NxK, np.full((20, 1), loss))
    assert_allclose(laws.losses(mixtures(50, seed=2)), loss, atol=1e-3)


def test_a_fit_that_does_not_converge_is_refused(monkeypatch):
    monkeypatch.setattr(exponential_law, "ITERATIONS", 1)
    weights_NxK = mixtures(24)
    loss_NxK = LAWS.losses(weights_NxK) + np.random.default_rng(0).normal(0, 0.1, (24, 3))
    with pytest.raises(InputError, match="does not converge on these 24 proxy runs"):
        fitted(weights_NxK, loss_NxK)


PRIOR = np.array([0.6, 0.3, 0.1])


def posed(*, target=UNIFORM, kl=0.0, prior=UNIFORM, cap=(np.inf,) * 3):
    return ConvexProgram(LAWS, np.asarray(target), kl, np.asarray(prior), np.asarray(cap))


@pytest.mark.parametrize("target", [UNIFORM, np.array([0.7, 0.2, 0.1]), np.array([1.0, 0, 0])])
@pytest.mark.parametrize("kl", [0.0, 0.05, 1.0])
def test_the_optimum_is_that_of_a_search(target, kl):
    program = posed(target=target, kl=kl, prior=PRIOR)
    weights_K, residual = solve_with_residual(program)
    searched_K, value = optimum(target_K=target, kl=kl, prior_K=PRIOR)
    assert_allclose(weights_K, searched_K, atol=0.004)
    # No point of the grid is better, and the grid's best is not far off.
    ours = program.loss(weights_K) + kl * program.divergence(weights_K)
    assert -1e-9 < value - ours < 1e-4
    assert residual < 1e-6


@pytest.mark.parametrize("kl", [0.0, 0.05])
def test_caps_bind(kl):
    free_K, _ = solve_with_residual(posed(kl=kl))
    cap_K = np.array([free_K[0] / 2, 1, 1])
    weights_K, residual = solve_with_residual(posed(kl=kl, cap=cap_K))
    assert_allclose(weights_K[0], cap_K[0], atol=1e-9)
    assert residual < 1e-6
    assert_allclose(weights_K, optimum(kl=kl, cap_K=cap_K)[0], atol=0.004)


def test_a_domain_without_text_gets_nothing():
    weights_K, _ = solve_with_residual(posed(kl=0.05, cap=(0.0, 1, 1)))
    assert weights_K[0] == 0
    assert_allclose(weights_K.sum(), 1)


def test_the_tangent_program_by_hand():
    # kl = 0: the domain of least slope is filled to its cap, the next one takes the rest.
    asked = posed(cap=(0.3, 1, 0.9))
    assert_allclose(asked.tangent_minimiser(np.array([-2.0, 0.0, -1.0]), 0), [0.3, 0, 0.7])
    # kl = 1, equal slopes: the prior. Slopes ln 2 apart: half the odds.
    asked = posed(prior=PRIOR)
    assert_allclose(asked.tangent_minimiser(np.zeros(3), 1), PRIOR)
    assert_allclose(asked.tangent_minimiser(np.array([np.log(2), 0, 0]), 1), [3 / 7, 3 / 7, 1 / 7])
    # A cap at half of 0.6: what is left over goes to the others in the prior's odds.
    asked = posed(prior=PRIOR, cap=(0.3, 1, 1))
    assert_allclose(asked.tangent_minimiser(np.zeros(3), 1), [0.3, 0.525, 0.175])


@pytest.mark.parametrize("kl", [0.0, 0.05])
def test_caps_of_exactly_a_whole_mixture_are_it(kl):
    cap_K = np.array([0.7, 0.2, 0.1])
    assert cap_K.sum() < 1
    assert_allclose(solve_with_residual(posed(kl=kl, cap=cap_K))[0], cap_K)


def test_a_program_that_is_not_solved_is_refused(monkeypatch):
    monkeypatch.setattr(convex_program, "TOLERANCE", -1.0)
    with pytest.raises(InputError, match="was not solved: its KKT residual is"):
        solve_with_residual(posed())


@effort(max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 12), st.sampled_from([0.0, 1e-3, 0.05, 1.0, 100.0]))
# One search ends early in these.
@example(9959, 4, 0.05)
@example(9182, 11, 1e-3)
@example(9821, 4, 0.05)
def test_random_programs_are_solved(seed, K, kl):
    rng = np.random.default_rng(seed)
    t_KxK = rng.normal(0, 2, (K, K))
    laws = Laws(rng.uniform(0, 3, K), rng.normal(0, 1, K), t_KxK - t_KxK.mean(1, keepdims=True))
    prior_K, target_K = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K))
    cap_K = rng.uniform(1.2 / K, 1, K)
    asked = ConvexProgram(laws, target_K, kl, prior_K, cap_K)
    weights_K, residual = solve_with_residual(asked)
    assert residual <= 1e-6 * (1 + kl)
    assert_allclose(weights_K.sum(), 1)
    assert (weights_K >= 0).all()
    assert (weights_K <= cap_K + 1e-9).all()
    # The objective is convex: the middle of two points is no higher than their mean.
    free = replace(asked, kl=0.0)
    middle_K = (weights_K + prior_K) / 2
    assert free.loss(middle_K) <= (free.loss(weights_K) + free.loss(prior_K)) / 2 + 1e-12


@pytest.mark.slow
def test_without_noise_the_true_optimum_is_found():
    found = MixingLaw(kl=0).find(swarm())
    assert_allclose(found.weights_K, optimum()[0], atol=0.004)
    diagnostics = found.diagnostics
    assert diagnostics["held_out_rmse"] < 1e-4
    assert set(diagnostics["held_out_rmse_by_domain"]) == set(DOMAINS)
    assert diagnostics["held_out_spearman"] == pytest.approx(1)
    assert diagnostics["kkt_residual"] < 1e-6
    assert diagnostics["predicted_loss"] == pytest.approx(optimum()[1], abs=1e-4)
    assert diagnostics["predicted_loss_uniform"] == pytest.approx(
        float(LAWS.losses(UNIFORM[None]).mean()), abs=1e-5
    )
    assert diagnostics["laws"]["prose"]["c"] == pytest.approx(2, abs=1e-3)
    assert diagnostics["laws"]["code"]["t"]["prose"] == pytest.approx(1.5, abs=1e-3)
    assert not diagnostics["outside_proxies"]
    # For the loss of code alone a mixture of code and nothing else is best, which no run has.
    corner = MixingLaw(kl=0, target={"code": 1, "prose": 0, "talk": 0}).find(swarm())
    assert_allclose(corner.weights_K, [1, 0, 0], atol=1e-6)
    assert corner.diagnostics["outside_proxies"]


@pytest.mark.slow
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_the_target_moves_the_mixture_and_a_price_holds_it_near_the_prior(order):
    names = tuple(DOMAINS[k] for k in order)
    runs = Swarm(
        names,
        [replace(r, weights_K=r.weights_K[order], loss_K=r.loss_K[order]) for r in proxies()],
    )
    found = MixingLaw(kl=0.05, target={"code": 3, "prose": 1, "talk": 1}).find(runs)
    expected = optimum(target_K=np.array([0.6, 0.2, 0.2]), kl=0.05)[0]
    assert_allclose(found.weights_K, expected[order], atol=0.004)
    found = MixingLaw(kl=1e6, prior={"code": 5, "prose": 3, "talk": 2}).find(runs)
    assert_allclose(found.weights_K, np.array([0.5, 0.3, 0.2])[order], atol=1e-6)
    assert found.diagnostics["kl_to_prior"] < 1e-9


@pytest.mark.slow
def test_no_domain_is_read_more_often_than_allowed():
    finder = MixingLaw(
        epochs=4, tokens_by_domain={"code": 250, "prose": 5e4, "talk": 5e4}, budget_tokens=1e4
    )
    found = finder.find(swarm())
    assert_allclose(found.weights_K[0], 4 * 250 / 1e4)
    assert found.diagnostics["capped"] == ["code"]
    assert MixingLaw().find(swarm()).diagnostics["capped"] == []


def test_outside_is_told_from_inside():
    triangle = np.array([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])
    assert not is_outside_hull(np.array([1 / 3, 1 / 3, 1 / 3]), triangle)
    assert not is_outside_hull(np.array([0.4, 0.4, 0.2]), triangle)
    assert is_outside_hull(np.array([0.5, 0.4, 0.1]), triangle)


@pytest.mark.slow
def test_too_few_proxies_are_counted():
    # 4 coefficients of 3 domains, one proxy held out at a time.
    with pytest.raises(InputError, match=r"4 proxy run\(s\) are too few, at least 5 are needed"):
        MixingLaw().find(swarm(4))
    MixingLaw().find(swarm(5))


def test_mixtures_along_a_line_are_refused():
    line = [np.array([a, 0.5 - a / 2, 0.5 - a / 2]) for a in np.linspace(0.1, 0.9, 12)]
    runs = [Proxy(f"{n:02}", weights_K=w, loss_K=np.ones(3)) for n, w in enumerate(line)]
    with pytest.raises(InputError, match="mixtures span 2 of 3 directions"):
        MixingLaw().find(Swarm(DOMAINS, runs))


def test_losses_that_are_not_positive_are_refused():
    runs = [replace(run, loss_K=run.loss_K - 3) for run in proxies()]
    for use in (MixingLaw().find, MixingLaw().fit):
        with pytest.raises(InputError, match="losses must be positive"):
            use(Swarm(DOMAINS, runs))


SHARES = (0.75, 0.25)
NAMES = ("0/web", "0/books", "1/web", "1/books")
# Web lowers the loss of web wherever it is read; books lower theirs three times as much in the end.
T_2x4 = np.array([[-1.0, 0.0, -1.0, 0.0], [0.0, -1.0, 0.0, -3.0]])


def losses(exposure_NxK):
    return 2 + np.exp(0.2 + exposure_NxK @ T_2x4.T)


def exposures(count=24, seed=0):
    random = np.random.default_rng(seed)
    parts = [s * random.dirichlet(np.ones(2), count) for s in SHARES]
    return np.concatenate(parts, axis=1)


def grid():
    """The lowest mean loss over all schedules in steps of a hundredth."""
    axis = np.linspace(0, 1, 101)
    first, second = (x.ravel() for x in np.meshgrid(axis, axis))
    columns = [0.75 * first, 0.75 * (1 - first), 0.25 * second, 0.25 * (1 - second)]
    exposure_SxK = np.stack(columns, axis=1)
    return exposure_SxK[losses(exposure_SxK).mean(axis=1).argmin()]


def test_the_best_schedule_of_a_known_law_is_found():
    exposure_NxK = exposures()
    runs = [Proxy(f"{n}", w, loss) for n, (w, loss) in enumerate(
        zip(exposure_NxK, losses(exposure_NxK), strict=True))]  # fmt: skip
    swarm = Swarm(NAMES, runs, ("web", "books"), SHARES)
    result = MixingLaw(kl=0).find(swarm)
    assert_allclose(result.weights_K, grid(), atol=0.01)
    # Each phase has its share, and the last one is of books.
    assert_allclose(result.weights_K.reshape(2, 2).sum(axis=1), SHARES)
    assert_allclose(result.weights_K[2:], [0, 0.25], atol=1e-6)
    assert result.diagnostics["kkt_residual"] < 1e-6
    assert_allclose(swarm.uniform_weights(), [0.375, 0.375, 0.125, 0.125])
    # A large price leads to equal parts in each phase.
    assert_allclose(MixingLaw(kl=1e6).find(swarm).weights_K, swarm.uniform_weights(), atol=1e-6)


@pytest.mark.parametrize("kl", [0.0, 0.05, 1.0])
def test_the_residual_bounds_what_is_left_in_every_phase(kl):
    laws = Laws(np.array([2.0, 2.0]), np.array([0.2, 0.2]), T_2x4)
    prior_K = np.array([0.375, 0.375, 0.125, 0.125])
    program = ConvexProgram(
        laws, np.full(2, 0.5), kl, prior_K, np.full(4, np.inf), np.array(SHARES)
    )
    best_K, residual = solve_with_residual(program)
    assert residual <= 1e-6 * (1 + kl)

    def value(weights_K):
        return program.loss(weights_K) + kl * program.divergence(weights_K)

    for weights_K in exposures(50, seed=3):
        assert value(weights_K) >= value(best_K) - 1e-9
        assert program.optimality_gap_bound(weights_K) >= value(weights_K) - value(best_K) - 1e-9


@pytest.mark.slow
def test_the_command_reads_phases_and_prints_a_method(said, write, tmp_path):
    header = [*(f"weight/{name}" for name in NAMES), "loss/web", "loss/books"]
    exposure_NxK = exposures()
    weights_NxK = exposure_NxK / np.repeat(SHARES, 2)
    rows = np.concatenate([weights_NxK, losses(exposure_NxK)], axis=1)
    path, saved = write(header, rows.tolist()), tmp_path / "p.json"
    command = ["fit", "mixing-law", path, "--target", "web", "books", "--phases", "3", "1"]
    command += ["--set", "kl=0", "--resamples", "3", "--format", "json", "--save", saved]
    found = json.loads(said(*command))
    rule = found["schedule"].pop("rule")
    schedule = make(rule, **found["schedule"], steps=100)
    state = schedule.init(("web", "books"), 0)
    best_K = grid()
    assert_allclose(schedule.weights(state, 74), best_K[:2] / 0.75, atol=0.02)
    assert_allclose(schedule.weights(state, 75), best_K[2:] / 0.25, atol=0.02)

    def predicted(*by_phase):
        """What the saved law predicts, where the weights of a phase are multiplied by a number."""
        mixture = [f"{n}={w * by_phase[int(n[0])]!r}" for n, w in found["mixture"].items()]
        return json.loads(said("predict", saved, "--format", "json", "--mixture", *mixture))

    assert predicted(1, 1)["loss"] == found["diagnostics"]["predicted_loss"]
    uniform = found["diagnostics"]["predicted_loss_uniform"]
    assert predicted(1, 1)["loss_of_equal_weights"] == pytest.approx(uniform, abs=1e-12)
    # Each phase has its share, whatever its weights sum to.
    assert predicted(5, 2)["loss"] == pytest.approx(predicted(1, 1)["loss"], abs=1e-12)


def test_phases_that_are_none_are_refused(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("weight/0/a,weight/0/b,weight/1/b,weight/1/a,loss/a\n1,0,1,0,2\n")
    with pytest.raises(InputError, match="of 2 phases the columns must be weight/0/<domain>"):
        swarm_table.read_swarm(path, phases=(1, 1))
    path.write_text("weight/0/a,weight/0/b,weight/1/a,weight/1/b,loss/a\n1,0,0.5,0.4,2\n")
    for phases in ((1, np.inf), (0,)):
        with pytest.raises(InputError, match="shares are positive"):
            swarm_table.read_swarm(path, phases=phases)
    with pytest.raises(InputError, match=r"row 1: the weights sum to 0\.9, not 1"):
        swarm_table.read_swarm(path, phases=(1, 1))
