"""Mixtures of several phases, found from tables of runs that had as many."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pike_mixing import make
from pike_mixing.errors import InputError
from pike_mixing.finders import table
from pike_mixing.finders.convex_program import ConvexProgram, solve_with_residual
from pike_mixing.finders.exponential_law import Laws
from pike_mixing.finders.interface import Proxy, Swarm
from pike_mixing.finders.mixing_law import MixingLaw

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
        assert program.kkt_residual(weights_K) >= value(weights_K) - value(best_K) - 1e-9


@pytest.mark.slow
def test_the_command_reads_phases_and_prints_a_method(said, write, tmp_path):
    header = [*(f"weight/{name}" for name in NAMES), "loss/web", "loss/books"]
    exposure_NxK = exposures()
    weights_NxK = exposure_NxK / np.repeat(SHARES, 2)
    rows = np.concatenate([weights_NxK, losses(exposure_NxK)], axis=1)
    path, saved = write(header, rows.tolist()), tmp_path / "p.json"
    swarm = table.read_swarm(path, phases=(3, 1))
    assert_allclose(swarm.weights_and_losses()[0], exposure_NxK)
    command = ["fit", "mixing-law", path, "--target", "web", "books", "--phases", "3", "1"]
    command += ["--set", "kl=0", "--resamples", "3", "--format", "json", "--save", saved]
    found = json.loads(said(*command))
    rule = found["schedule"].pop("rule")
    schedule = make(rule, **found["schedule"], steps=100)
    state = schedule.init(("web", "books"), 0)
    best_K = grid()
    assert_allclose(schedule.weights(state, 74), best_K[:2] / 0.75, atol=0.02)
    assert_allclose(schedule.weights(state, 75), best_K[2:] / 0.25, atol=0.02)
    mixture = [f"{name}={weight!r}" for name, weight in found["mixture"].items()]
    predicted = json.loads(said("predict", saved, "--format", "json", "--mixture", *mixture))
    assert predicted["loss"] == found["diagnostics"]["predicted_loss"]
    uniform = found["diagnostics"]["predicted_loss_uniform"]
    assert predicted["loss_of_equal_weights"] == pytest.approx(uniform, abs=1e-12)
    # Each phase has its share, whatever its weights sum to.
    scaled = {
        name: weight * (5 if name[0] == "0" else 2) for name, weight in found["mixture"].items()
    }
    mixture = [f"{name}={weight!r}" for name, weight in scaled.items()]
    again = json.loads(said("predict", saved, "--format", "json", "--mixture", *mixture))
    assert again["loss"] == pytest.approx(predicted["loss"], abs=1e-12)


def test_phases_that_are_none_are_refused(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("weight/0/a,weight/0/b,weight/1/b,weight/1/a,loss/a\n1,0,1,0,2\n")
    with pytest.raises(InputError, match="of 2 phases the columns must be weight/0/<domain>"):
        table.read_swarm(path, phases=(1, 1))
    path.write_text("weight/0/a,weight/0/b,weight/1/a,weight/1/b,loss/a\n1,0,0.5,0.4,2\n")
    for phases in ((1, np.inf), (0,)):
        with pytest.raises(InputError, match="shares are positive"):
            table.read_swarm(path, phases=phases)
    with pytest.raises(InputError, match=r"row 1: the weights sum to 0\.9, not 1"):
        table.read_swarm(path, phases=(1, 1))
