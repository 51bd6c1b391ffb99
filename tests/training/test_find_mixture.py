import math
from pathlib import Path

import edits
import known_law
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from known_law import DOMAINS
from numpy.testing import assert_allclose

from pike_mixing.errors import InputError
from pike_mixing.finders.mixing_law import MixingLaw
from pipeline.evaluation.evaluate import TABLES
from pipeline.model import checkpoint
from pipeline.runtime import atomic_files, made_from
from pipeline.training import metric_log
from pipeline.training.find_mixture import find_mixture

STEPS = 20


def trained(folder, *, method=None, domains=DOMAINS, steps=STEPS, weights=None, chosen=()):
    """A run folder's records and manifest; `weights` are those of the last step."""
    folder.mkdir(parents=True, exist_ok=True)
    equal = dict.fromkeys(domains, 1 / len(domains))
    records = [
        {"step": step, "domain": domain, "weight": weight, "count": 1}
        for step, by_domain in enumerate([equal, weights or equal])
        for domain, weight in by_domain.items()
    ]
    pq.write_table(pa.Table.from_pylist(records), folder / "weights.parquet")
    pq.write_table(
        pa.Table.from_pylist(list(chosen), schema=metric_log.TABLES["coefficients"]),
        folder / "coefficients.parquet",
    )
    made_from.InputSnapshot("pretrain", ["pipeline.runtime.atomic_files"]).write_manifest(
        folder / "manifest.json",
        settings={
            **dict.fromkeys(("scenario", "model_name", "method_name"), "any"),
            "seed": 0,
            "domains": list(domains),
            "training": {"steps": steps},
            "method": method or {},
        },
        files=[folder / "weights.parquet", folder / "coefficients.parquet"],
        facts={
            "run": "any/any/any/seed0",
            "domains": list(domains),
            "steps": steps,
            "checkpoints": [steps],
            "weights_sha256": "0" * 64,
        },
    )


def evaluated(folder, loss, *, steps=STEPS, tokens=None):
    """A run folder's only evaluation; `tokens` are losses of tokens by domain."""
    atomic_files.remove_path(folder / "evaluations")
    path = folder / "evaluations" / f"step{steps}" / "search_losses.parquet"
    path.parent.mkdir(parents=True)
    rows = [{"step": steps, "domain": d, "nll": nll, "tokens": 100} for d, nll in loss.items()]
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES["search_losses"]), path)
    files = [path]
    if tokens is not None:
        files.append(path.with_name("token_losses.parquet"))
        kept = [{"step": steps, "domain": d, "nll": nll} for d, nll in tokens.items()]
        pq.write_table(pa.Table.from_pylist(kept, schema=TABLES["token_losses"]), files[1])
    made_from.InputSnapshot(
        "evaluate", ["pipeline.runtime.atomic_files"], inputs=[folder / "manifest.json"]
    ).write_manifest(
        folder / "evaluations" / "manifest.json",
        settings={},
        files=files,
        facts={"run": "any/any/any/seed0", "steps": [steps]},
    )


def swarm(root, count=12):
    """Proxy runs whose losses follow the known law."""
    listed = {}
    for proxy in known_law.proxies(count):
        folder = root / "runs" / proxy.name
        weights = dict(zip(DOMAINS, proxy.weights_K.tolist(), strict=True))
        trained(folder, method={"weights_by_domain": weights})
        evaluated(folder, dict(zip(DOMAINS, proxy.loss_K.tolist(), strict=True)))
        listed[proxy.name] = {"folder": str(folder), "weights_by_domain": weights}
    return {"finder": "mixing-law", "domains": list(DOMAINS), "options": {}, "proxies": listed}


def found(root, settings):
    atomic_files.write_json(root / "settings.json", settings)
    find_mixture(root / "settings.json", root / "mixtures" / "law.json")
    return atomic_files.read_json(root / "mixtures" / "law.json")


@pytest.mark.slow
def test_a_swarm_becomes_a_mixture(tmp_path):
    settings = swarm(tmp_path)
    record = found(tmp_path, settings)
    expected_K = MixingLaw().find(known_law.swarm(12)).weights_K
    assert list(record["weights_by_domain"]) == list(DOMAINS)
    assert_allclose(list(record["weights_by_domain"].values()), expected_K, atol=1e-9)
    assert record["stage"] == "mixture"
    # Not where the runs lie, which can be moved.
    for proxy in settings["proxies"].values():
        del proxy["folder"]
    assert record["settings"] == settings
    assert record["diagnostics"]["runs"] == 12
    assert set(record["inputs"]) == {
        f"../runs/proxy{n:02}/{path}"
        for n in range(12)
        for path in ("manifest.json", "evaluations/manifest.json")
    }


def grid(root, losses, order=()):
    """A grid of runs, each with the losses of the three domains, or one of all; found."""
    settings = {"finder": "grid", "domains": list(DOMAINS), "options": {}, "proxies": {}}
    settings |= {"order": [*order]} if order else {}
    for name, loss in losses.items():
        folder = root / "runs" / name
        trained(folder)
        loss_K = loss if isinstance(loss, tuple) else (loss,) * len(DOMAINS)
        evaluated(folder, dict(zip(DOMAINS, loss_K, strict=True)))
        proxy = {"folder": str(folder), "weights_by_domain": None, "gives": {"zeta1": name[0]}}
        settings["proxies"][name] = proxy
    return settings, found(root, settings)


def test_a_grid_gives_the_settings_with_the_lowest_mean_over_seeds(tmp_path, caplog):
    # Means 3 and 3.5, though the lowest loss is of the second; the third diverged on one seed.
    losses = {"a0": (2, 2, 2), "a1": (4, 4, 4), "b0": (1, 1, 1), "b1": (3, 6, 9)}
    losses |= {"c0": (0, 0, 0), "c1": (0, 0, math.nan)}
    settings, record = grid(tmp_path, losses)
    assert record["chosen"] == {"zeta1": "a"}
    told = {"a0": 2, "a1": 4, "b0": 1, "b1": 6, "c0": 0, "c1": None}
    # The second is better by 1 and worse by 2.
    second = {"gives": {"zeta1": "b"}, "difference": 0.5, "stderr": pytest.approx(1.5), "seeds": 2}
    assert record["diagnostics"] == {"run": "a0", "losses": told, "next": second}
    assert "the first of the grid's 3 settings is chosen" in caplog.text
    # On the first domain alone the second is better.
    settings["options"] = {"target": dict(zip(DOMAINS, (2, 0, 0), strict=True))}
    record = found(tmp_path, settings)
    assert record["chosen"] == {"zeta1": "b"}
    assert record["diagnostics"]["losses"] == {**told, "b1": 3}


@pytest.mark.parametrize(
    ("losses", "order", "chosen"),
    [
        # b is better by 0.3 and worse by 0.1: 0.1 with an error of 0.2, and a is the milder.
        ({"a0": 3.3, "a1": 2.9, "b0": 3.0, "b1": 3.0}, ("a0", "a1", "b0", "b1"), "a"),
        ({"a0": 3.3, "a1": 2.9, "b0": 3.0, "b1": 3.0}, ("b0", "b1", "a0", "a1"), "b"),
        # Better by 0.3 and 0.1: 0.2 with an error of 0.1.
        ({"a0": 3.3, "a1": 3.1, "b0": 3.0, "b1": 3.0}, ("a0", "a1", "b0", "b1"), "b"),
        # One seed has no error: the lower loss.
        ({"a0": 3.0003, "b0": 3.0}, ("a0", "b0"), "b"),
    ],
)
def test_of_settings_that_the_seeds_cannot_tell_apart_a_grid_takes_the_mildest(
    tmp_path, losses, order, chosen
):
    assert grid(tmp_path, losses, order)[1]["chosen"] == {"zeta1": chosen}


def test_mde_reads_the_tokens_of_the_experts(tmp_path):
    # Each domain has one word, which its expert gives 0.8 and the others 0.1: a mixture w gives
    # 0.1 + 0.7 w_k. The target of 4, 1, 1 is met where u_k / (0.1 + 0.7 w_k) is the same for all k.
    settings = swarm(tmp_path) | {"finder": "mde"}
    settings["options"] = {"target": dict(zip(DOMAINS, (4, 1, 1), strict=True))}
    for proxy in settings["proxies"].values():
        weights = proxy["weights_by_domain"]
        evaluated(Path(proxy["folder"]), {d: -math.log(0.1 + 0.7 * weights[d]) for d in DOMAINS})
    for domain in DOMAINS:
        folder, chance = tmp_path / domain, {d: 0.8 if d == domain else 0.1 for d in DOMAINS}
        weights = {d: float(d == domain) for d in DOMAINS}
        trained(folder, method={"weights_by_domain": weights}, weights=weights)
        loss = {d: -math.log(p) for d, p in chance.items()}
        evaluated(folder, loss, tokens={d: [nll] * 3 for d, nll in loss.items()})
        settings["proxies"][domain] = {"folder": str(folder), "weights_by_domain": weights}
    record = found(tmp_path, settings)
    # 0.1 + 0.7 w = u: the sum of both sides is 1.
    expected = [(u - 0.1) / 0.7 for u in (4 / 6, 1 / 6, 1 / 6)]
    assert_allclose(list(record["weights_by_domain"].values()), expected, atol=1e-3)
    evaluated(tmp_path / DOMAINS[0], loss)
    (tmp_path / "mixtures" / "law.json").unlink()
    refused(tmp_path, settings, "again with `token_losses: true`")


def test_the_average_is_read_from_the_last_checkpoint(tmp_path):
    folder = tmp_path / "runs" / "doremi"
    trained(folder)
    average_K = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
    state = {"method.average_K": average_K, "method.dro_K": average_K.flip(0)}
    facts = {"format": checkpoint.FORMAT, "step": STEPS, "identity": {}}
    facts |= {"model": {}, "vocabulary": 8}
    last = folder / "checkpoints" / f"step{STEPS}"
    checkpoint.write_checkpoint(last, checkpoint.Snapshot({}, state, facts))
    settings = {"finder": "average", "domains": list(DOMAINS), "options": {}}
    settings["proxies"] = {"doremi": {"folder": str(folder), "weights_by_domain": None}}
    record = found(tmp_path, settings)
    assert record["weights_by_domain"] == pytest.approx({"code": 0.5, "prose": 0.2, "talk": 0.3})
    assert set(record["inputs"]) == {
        "../runs/doremi/manifest.json",
        f"../runs/doremi/checkpoints/step{STEPS}/manifest.json",
    }
    turned = settings | {"domains": ["talk", "code", "prose"]}
    with pytest.raises(InputError, match="doremi has the domains in the order code, prose, talk"):
        found(tmp_path, turned)
    (last / "training.safetensors").write_bytes(b"half")
    with pytest.raises(InputError, match=r"training\.safetensors is damaged"):
        found(tmp_path, settings)
    atomic_files.remove_path(last)
    with pytest.raises(InputError, match="doremi has no checkpoint of its last step"):
        found(tmp_path, settings)


@pytest.fixture
def best(tmp_path):
    return swarm(tmp_path, 3) | {"finder": "best"}


def test_domains_of_a_loss_are_matched_by_name_and_others_left_out(tmp_path, best):
    for name, code in (("proxy00", 3.0), ("proxy01", 1.0), ("proxy02", 2.0)):
        loss = {"elsewhere": 99.0, "talk": 0.5, "prose": 1.5, "code": code}
        evaluated(tmp_path / "runs" / name, loss)
    best["options"] = {"target": {"code": 1, "prose": 0, "talk": 0}}
    record = found(tmp_path, best | {"domains": ["talk", "code", "prose"]})
    assert record["diagnostics"]["run"] == "proxy01"
    expected = best["proxies"]["proxy01"]["weights_by_domain"]
    assert record["weights_by_domain"] == pytest.approx(expected)


def refused(root, settings, match):
    with pytest.raises(InputError, match=match):
        found(root, settings)
    assert not (root / "mixtures" / "law.json").exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"finder": "bets"}, "'bets' is unknown: did you mean 'best'"),
        ({"options": {"kll": 1}}, "options: 'kll' is unknown: did you mean"),
        ({"domains": ["code", "code"]}, "'code' is named twice"),
        ({"domains": ["code", "prose"]}, "'talk' is unknown"),
        ({"domains": [*DOMAINS, "new"]}, "weights_by_domain: domain 'new' has no weight"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, changes, told):
    refused(tmp_path, swarm(tmp_path, 3) | changes, told)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (edits.remove("manifest.json"), "proxy01: .* does not exist: train the run to its end"),
        (
            lambda folder: trained(folder, domains=("code", "prose")),
            "proxy01 trained on code, prose, but a mixture of code, prose, t",
        ),
        (
            edits.remove("evaluations"),
            "proxy01 has no losses on the search split after its last step .*: "
            "run `pike evaluate` .* with `search: true`",
        ),
        (
            lambda folder: trained(folder, steps=2 * STEPS),
            "proxy01 has no losses on the search split after its last step",
        ),
        (
            lambda folder: evaluated(folder, {"code": 1.0, "prose": 2.0}),
            "proxy01 was not evaluated on talk",
        ),
    ],
    ids=["unfinished", "other domains", "not evaluated", "not at its end", "not on a domain"],
)
def test_a_proxy_that_nothing_can_be_found_from_is_refused(tmp_path, best, harm, told):
    harm(tmp_path / "runs" / "proxy01")
    refused(tmp_path, best, told)


def test_a_proxy_whose_settings_hold_no_weights_is_taken_by_those_of_its_records(tmp_path, best):
    folder = tmp_path / "runs" / "proxy01"
    trained(folder)
    evaluated(folder, dict.fromkeys(DOMAINS, 0.1))
    best["proxies"]["proxy01"]["weights_by_domain"] = None
    record = found(tmp_path, best)
    assert record["weights_by_domain"] == pytest.approx(dict.fromkeys(DOMAINS, 1 / 3))


def test_records_that_hold_no_static_mixture_are_refused(tmp_path, best):
    folder = tmp_path / "runs" / "proxy01"
    best["proxies"]["proxy01"]["weights_by_domain"] = None
    trained(folder, chosen=[{"step": 0, "domain": "code", "coefficient": 0.5}])
    refused(tmp_path, best, "proxy proxy01 has no static mixture")
    trained(folder, weights={"code": 0.5, "prose": 0.2, "talk": 0.3})
    refused(tmp_path, best, "proxy proxy01 has no static mixture")
    (folder / "weights.parquet").write_bytes(b"PAR1")
    refused(tmp_path, best, "weights.parquet is not the file that its manifest lists")
