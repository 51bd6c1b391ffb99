"""How often verdicts are wrong, and their intervals by resampling seeds and documents."""

import itertools

import duckdb
import numpy as np
import pytest

from pipeline.results import claim_tests, comparisons, views
from pipeline.results.outcomes import Differences
from pipeline.statistics import paired
from pipeline.statistics.detectable import detectable, detection_probability

TIMES = 1000
TWO_SIGMA = 2 * (0.05 * 0.95 / TIMES) ** 0.5
"""Of a rate of 5 % in so many repetitions."""


@pytest.fixture(scope="module")
def differences():
    """A function from losses by document to the rows of method_differences, one per scenario."""
    connection = duckdb.connect()
    views.create(connection, "method_differences")
    connection.execute("insert into experiment values ('e', 'mix', null, '{}')")

    def of(apart_CxSxD, tokens_D=None):
        """PiKE's losses less Mix's: C scenarios, S seeds, D documents (of a token each)."""
        connection.execute("delete from documents; delete from runs; delete from perplexities")
        C, S, D = apart_CxSxD.shape
        place = {n: a.ravel() for n, a in zip("csd", np.indices((C, S, D)), strict=True)}
        both = {"mix": np.zeros(C * S * D), "pike": apart_CxSxD.ravel()}
        place["t"] = np.tile(np.ones(D) if tokens_D is None else tokens_D, C * S)
        for method, nll in both.items():
            # DuckDB finds this variable by its name in the statements below.
            given = place | {"nll": 3 + nll}  # noqa: F841
            name = f"c || '/m/{method}/seed' || s"
            connection.execute(
                f"insert into documents (run, step, domain, document, nll, tokens) "
                f"select {name}, 10, 'a', d, nll * t, t from given"
            )
            connection.execute(
                "insert into runs (run, scenario, model, method, seed, steps, tokens) "
                f"select distinct {name}, c, 'm', '{method}', s, 10, 1000 from given"
            )
            connection.execute(
                "insert into perplexities (run, step, domain, nll, perplexity, stderr) "
                f"select distinct {name}, 10, 'a', 3, 20, 0.1 from given"
            )
        return connection.execute("from method_differences order by scenario::integer").df()

    yield of
    connection.close()


def simulated(difference, seeds, *, seed_sd=0.05, document_sd=0.2, documents=40, times=TIMES):
    """Differences by repetition, seed and document: the documents' own are those of all seeds."""
    draw = paired.stream("error rates", str(difference), str(seeds))
    return (
        difference
        + draw.normal(0, seed_sd, (times, seeds, 1))
        + draw.normal(0, document_sd, (times, 1, documents))
    )


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5])
def test_intervals_err_in_one_of_twenty_and_find_what_is_detectable(differences, seeds):
    none = differences(simulated(0.0, seeds))
    assert ((none.nll_low > 0) | (none.nll_high < 0)).mean() <= 0.05
    stated = detectable(0.05, seeds, 0.2 / 40**0.5)
    there = differences(simulated(-stated, seeds))
    assert (there.nll_high < 0).mean() >= 0.8 - 2 * (0.8 * 0.2 / TIMES) ** 0.5
    assert not (there.nll_low > 0).any()


LENGTHS = {
    "code": [
        878,
        535,
        474,
        388,
        365,
        255,
        227,
        175,
        140,
        128,
        110,
        100,
        96,
        75,
        60,
        40,
        25,
        15,
        10,
    ],
    "reference": [3200, 450, 250, 130, 66],
    "unicode": [128] * 8 + [100] * 16 + [60] * 20 + [17] * 16,
}
"""Tokens of validation documents as the standard library's text has them."""


@pytest.mark.slow
@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize(("seed_sd", "document_sd"), [(0.1, 0.02), (0.001, 0.1), (0.03, 0.1)])
@pytest.mark.parametrize("text", LENGTHS)
def test_intervals_hold_over_documents_of_any_length(
    differences, text, seed_sd, document_sd, heavy
):
    tokens_D = np.array(LENGTHS[text], float)
    draw = paired.stream("lengths", text, str(seed_sd), str(heavy))
    shape = (TIMES, 1, len(tokens_D))
    document = draw.standard_t(3, shape) / 3**0.5 if heavy else draw.standard_normal(shape)
    apart = draw.normal(0, seed_sd, (TIMES, 3, 1)) + document_sd * document
    rows = differences(apart, tokens_D)
    # Three standard deviations, as there are 18 cases.
    assert ((rows.nll_low > 0) | (rows.nll_high < 0)).mean() <= 0.05 + 1.5 * TWO_SIGMA
    few = (rows.effective < 20).all()
    assert few == (text != "unicode")
    if not few and seed_sd != 0.03:
        # Where both parts matter the sum of their squares is up to two points too wide.
        assert ((rows.nll_low > 0) | (rows.nll_high < 0)).mean() >= 0.05 - 1.5 * TWO_SIGMA


@pytest.mark.slow
def test_intervals_are_those_of_resampled_seeds_and_documents(differences):
    apart_CxSxD = simulated(0.1, 4, times=3, documents=60)
    rows = differences(apart_CxSxD)
    for apart_SxD, row in zip(apart_CxSxD, rows.itertuples(), strict=True):
        seeds, documents = apart_SxD.shape
        draw = np.random.default_rng(1)
        picked = draw.integers(0, documents, (20_000, documents))
        by_document_D = apart_SxD.mean(axis=0)
        # A bootstrap of n values has (n - 1) / n of their variance.
        of_documents = (
            by_document_D[picked].mean(axis=1).std() * (documents / (documents - 1)) ** 0.5
        )
        picked = draw.integers(0, seeds, (20_000, seeds))
        by_seed_S = apart_SxD.mean(axis=1)
        of_seeds = by_seed_S[picked].mean(axis=1).std() * (seeds / (seeds - 1)) ** 0.5
        # A standard deviation of 20,000 draws is known to half a percent; t of 3 degrees is 3.182,
        # of 59 degrees 2.001.
        half = ((3.182 * of_seeds) ** 2 + (2.001 * of_documents) ** 2) ** 0.5
        assert row.nll_high - row.nll_difference == pytest.approx(half, rel=0.02)
        assert row.nll_stderr == pytest.approx(np.hypot(of_seeds, of_documents), rel=0.02)
        # The two parts in one draw, seeds by weights that spread as Student's t does.
        weight_BxS = paired.seed_weights(seeds, "test")
        mean_BxS = paired.bootstrap(apart_SxD, np.ones(documents), "test")
        drawn_B = np.einsum("bs,bs->b", weight_BxS, mean_BxS)
        low, high = np.quantile(drawn_B, [0.025, 0.975])
        assert (high - low) / 2 == pytest.approx(half, rel=0.12)


def test_intervals_of_accuracies_are_those_of_resampled_seeds_and_items():
    draw = paired.stream("accuracies")
    points_SxI = draw.choice([-1.0, 0.0, 1.0], p=[0.1, 0.6, 0.3], size=(4, 300))
    pairs = Differences([0, 1, 2, 3], 300, np.ones(300, int), {"m": 0.5}, {"m": points_SxI},
                        {"m": points_SxI**2})  # fmt: skip
    (one,) = comparisons.compared(pairs, ("s", "m", "t", 0, "cf"), "pike", "mix")
    picked = draw.integers(0, 300, (10_000, 300))
    of_items = points_SxI.mean(axis=0)[picked].mean(axis=1).std()
    picked = draw.integers(0, 4, (10_000, 4))
    of_seeds = points_SxI.mean(axis=1)[picked].mean(axis=1).std() * (4 / 3) ** 0.5
    half = ((3.182 * of_seeds) ** 2 + (1.968 * of_items) ** 2) ** 0.5
    difference, _, _, high = one.points()
    assert high - difference == pytest.approx(100 * half, rel=0.03)


def test_drawn_means_of_seeds_spread_as_students_t():
    values_S = np.array([1.0, 2.0, 6.0])
    weight_BxS = paired.seed_weights(3, "a test")
    assert weight_BxS.sum(axis=1) == pytest.approx(np.ones(len(weight_BxS)))
    # The mean is 3, the standard deviation sqrt(7): 90 % lie within 2.920 sqrt(7 / 3) = 4.460.
    inside = np.abs(weight_BxS @ values_S - 3) < 4.460
    assert inside.mean() == pytest.approx(0.9, abs=3 * (0.09 / len(inside)) ** 0.5)
    assert (paired.seed_weights(1, "a test") == 1).all()


@pytest.mark.slow
def test_all_claims_together_err_in_one_of_twenty():
    # Eight claims, of one to three numbers, all at their bounds; three seeds.
    sizes, wrong = (1, 1, 1, 1, 2, 2, 3, 3), 0
    value_RxCxS = paired.stream("claims").normal(0, 1, (TIMES, sum(sizes), 3))
    mean_RxC, error_RxC = value_RxCxS.mean(-1), value_RxCxS.std(-1, ddof=1) / 3**0.5
    for mean_C, error_C in zip(mean_RxC, error_RxC, strict=True):
        cells = zip(mean_C.tolist(), error_C.tolist(), strict=True)
        with_p = iter([(m, claim_tests.cell_p(m, e, 0.0, 3)) for m, e in cells])
        claims = [claim_tests.claim_p(list(itertools.islice(with_p, n))) for n in sizes]
        wrong += any(p < 0.05 for p in paired.holm(claims))
    assert wrong / TIMES <= 0.05 + TWO_SIGMA


@pytest.mark.parametrize(("seeds", "by_hand"), [(2, 11.55), (3, 3.264), (5, 1.682), (10, 0.996)])
def test_detectable_differences(seeds, by_hand):
    # Ten seeds, one standard deviation: 80.3 % by the noncentral t.
    assert detectable(1.0, seeds) == pytest.approx(by_hand, rel=1e-3)
    assert detection_probability(1.0, 1.0, 10, 0.0) == pytest.approx(0.803, abs=5e-4)
    # Without a spread of seeds it is that of a normal test, 1.960 + 0.842.
    assert detectable(1e-9, seeds, 1.0) == pytest.approx(2.802, rel=1e-3)


def test_the_views_know_the_same_detectable_differences():
    connection = duckdb.connect()
    connection.execute(views.schema())
    for seeds in (2, 3, 10, 14):
        for seed_sd, shared in ((1.0, 0.0), (0.0, 1.0), (1.0, 0.5)):
            sql = "select detectable(?, ?, ?)"
            (value,) = connection.execute(sql, [seed_sd, seeds, shared]).fetchone()
            exact = detectable(seed_sd or 1e-9, seeds, shared)
            # Both parts by one root: at most a tenth too much, never too little.
            assert 0.995 * exact <= value <= 1.15 * exact
