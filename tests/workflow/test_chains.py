"""Runs that stand on runs, through Snakemake: DoReMi's three jobs, and a mixture from a swarm."""

import json

import pytest

pytestmark = pytest.mark.workflow

RUNS = "results/runs/words/tiny"
MIXTURES = "results/mixtures/words/tiny"


def _chain(config):
    config["methods"] |= {
        "proxy": {"rule": "doremi", "reference": "mix", "rate": 3},
        "doremi": {"rule": "fixed", "mixture": "doremi"},
        "oracle": {"rule": "fixed", "mixture": "oracle"},
    }
    config["swarms"] = {"drawn": {"runs": 3, "seed": 9}}
    config["mixtures"] = {
        "doremi": {"finder": "average", "methods": ["proxy"]},
        "oracle": {"finder": "best", "swarm": "drawn"},
    }
    config["compare"] = {"oracle": "oracle"}
    del config["scenarios"]["words"]["probe"]
    config["runs"][0]["methods"] = ["mix", "doremi", "oracle"]
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
    return json.loads(project.path(name).read_text(encoding="utf-8"))


def rows(project, sql):
    done = project.pike("query", sql, "--format", "json")
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout)


def test_the_final_run_trains_on_the_average_weights_of_its_proxy(chained):
    found = read(chained, f"{MIXTURES}/doremi/seed0.json")
    weights = found["weights_by_domain"]
    assert sum(weights.values()) == pytest.approx(1)
    trained = rows(
        chained,
        "select domain, weight from weights where run = 'words/tiny/doremi/seed0' and step = 11",
    )
    assert {row["domain"]: row["weight"] for row in trained} == pytest.approx(weights)
    proxy = rows(chained, "select run from coefficients group by run")
    assert proxy == [{"run": "words/tiny/proxy/seed0"}]


def test_the_oracle_is_the_swarms_best(chained):
    losses = rows(
        chained,
        "select run, avg(nll) as nll from perplexities where run like '%drawn%' "
        "and step = 12 group by run order by nll",
    )
    assert len(losses) == 3
    weights = read(chained, f"{RUNS}/{losses[0]['run'].split('/')[2]}/seed9/run.json")["method"]
    found = read(chained, f"{MIXTURES}/oracle/seed9.json")["weights_by_domain"]
    total = sum(weights["weights_by_domain"].values())
    expected = {d: w / total for d, w in weights["weights_by_domain"].items()}
    assert found == pytest.approx(expected)


def test_tables_show_what_was_asked_for_and_regrets(chained):
    table = chained.path("results/tables/methods.md").read_text(encoding="utf-8")
    assert "regret against oracle" in table
    assert "| doremi |" in table
    assert "drawn-000" not in table
    assert "proxy" not in table
    report = chained.path("results/report/index.html").read_text(encoding="utf-8")
    assert "doremi" in report
    assert "drawn-000" not in report


def test_why_follows_a_mixture_to_its_proxies(chained):
    shown = chained.pike("why", "run/words/tiny/doremi/seed0").stdout
    for name in ("mixture/words/tiny/doremi/seed0", "run/words/tiny/proxy/seed0", "source/easy"):
        assert name in shown


def test_an_unchanged_chain_plans_nothing(chained):
    assert chained.plan() == set()


def test_a_changed_proxy_plans_its_chain_alone(chained, tmp_path):
    project = chained.copy(tmp_path / "project")
    project.configure(lambda config: config["methods"]["proxy"].update(rate=1))
    planned = {job for job in project.plan() if job.split()[0] in ("pretrain", "mixture")}
    assert planned == {
        "pretrain words/tiny/proxy/seed0",
        "mixture words/tiny/doremi/seed0",
        "pretrain words/tiny/doremi/seed0",
    }


def test_a_changed_swarm_plans_its_chain_alone(chained, tmp_path):
    project = chained.copy(tmp_path / "project")
    project.configure(lambda config: config["swarms"]["drawn"].update(runs=4))
    planned = {job for job in project.plan() if job.split()[0] in ("pretrain", "mixture")}
    assert planned == {
        "pretrain words/tiny/drawn-003/seed9",
        "mixture words/tiny/oracle/seed9",
        "pretrain words/tiny/oracle/seed0",
    }
