"""Runs that stand on runs, through Snakemake: DoReMi's three jobs, and a mixture from a swarm."""

import pytest

from pipeline.runtime import atomic_files

RUNS = "results/runs/words/tiny"
MIXTURES = "results/mixtures/words/tiny"
PAIR = {"rule": "pike", "zeta1": 0.1, "zeta2": 0.01, "every": 4, "first": 0, "rows": 4}


def _chain(config):
    config["methods"] |= {
        "proxy": {"rule": "doremi", "reference": "mix", "rate": 3},
        "doremi": {"rule": "fixed", "mixture": "doremi"},
        "oracle": {"rule": "fixed", "mixture": "oracle"},
        "pair-1": PAIR,
        "pair-2": PAIR | {"zeta1": 5.0},
        "tuned": {name: PAIR[name] for name in PAIR if "zeta" not in name} | {"grid": "pairs"},
    }
    pairs = {"methods": ["pair-1", "pair-2"], "settings": ["zeta1", "zeta2"], "seeds": [0]}
    config["grids"] = {"pairs": pairs}
    config["swarms"] = {"drawn": {"runs": 3, "seed": 9}}
    config["mixtures"] = {
        "doremi": {"finder": "average", "methods": ["proxy"]},
        "oracle": {"finder": "best", "swarm": "drawn"},
    }
    config["compare"] = {"oracle": "oracle"}
    del config["scenarios"]["words"]["probe"]
    config["runs"][0]["methods"] = ["mix", "doremi", "oracle", "tuned"]
    config["tables"] = {"methods": {}}
    config["figures"] = {}


@pytest.fixture(scope="module")
def chained(whole, tmp_path_factory):
    """The tiny experiment with both chains, made from its finished corpora. Never change it."""
    project = whole.copy(tmp_path_factory.mktemp("chains") / "project")
    project.configure(_chain)
    project.make()
    return project


def read(project, name):
    return atomic_files.read_json(project.path(name))


def test_the_final_run_trains_on_the_average_weights_of_its_proxy(chained):
    found = read(chained, f"{MIXTURES}/doremi/seed0.json")
    weights = found["weights_by_domain"]
    assert sum(weights.values()) == pytest.approx(1)
    trained = chained.answer(
        "select domain, weight from weights where run = 'words/tiny/doremi/seed0' and step = 11",
    )
    assert {row["domain"]: row["weight"] for row in trained} == pytest.approx(weights)
    proxy = chained.answer("select run from coefficients group by run")
    assert proxy == [{"run": "words/tiny/proxy/seed0"}]


def test_the_oracle_is_the_swarms_best(chained):
    losses = chained.answer(
        "select run, avg(nll) as nll from perplexities where run like '%drawn%' "
        "and step = 12 group by run order by nll",
    )
    assert len(losses) == 3
    weights = read(chained, f"{RUNS}/{losses[0]['run'].split('/')[2]}/seed9/run.json")["method"]
    found = read(chained, f"{MIXTURES}/oracle/seed9.json")["weights_by_domain"]
    total = sum(weights["weights_by_domain"].values())
    expected = {d: w / total for d, w in weights["weights_by_domain"].items()}
    assert found == pytest.approx(expected)


def test_the_final_run_trains_with_the_pair_of_the_grids_best_run(chained):
    losses = chained.answer(
        "select run, avg(nll) as nll from perplexities where run like '%pair-%' and step = 12 "
        "group by run order by nll",
    )
    best = read(chained, f"results/runs/{losses[0]['run']}/run.json")["method"]
    chosen = read(chained, f"{MIXTURES}/pairs/seed0.json")["chosen"]
    assert chosen == {name: best[name] for name in ("zeta1", "zeta2")}
    weights = chained.weights()
    assert weights["tuned"] == weights[losses[0]["run"].split("/")[2]]
    assert (
        "mixture/words/tiny/pairs/seed0" in chained.pike("why", "run/words/tiny/tuned/seed0").stdout
    )


@pytest.mark.parametrize(
    ("at", "value", "chain"),
    [
        ("methods/proxy/rate", 1, ("proxy/seed0", "doremi/seed0", "doremi/seed0")),
        ("methods/pair-1/zeta1", 0.2, ("pair-1/seed0", "pairs/seed0", "tuned/seed0")),
        ("swarms/drawn/runs", 4, ("drawn-003/seed9", "oracle/seed9", "oracle/seed0")),
    ],
)
def test_a_change_plans_its_chain_alone(chained, tmp_path, at, value, chain):
    project = chained.copy(tmp_path / "project")
    assert project.outdated() == set()
    project.set({at: value})
    planned = {job for job in project.outdated() if job.split()[0] in ("pretrain", "mixture")}
    proxy, mixture, final = (f"words/tiny/{name}" for name in chain)
    assert planned == {f"pretrain {proxy}", f"mixture {mixture}", f"pretrain {final}"}
