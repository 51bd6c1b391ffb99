"""The explorer's page in a browser: the library's numbers, by keyboard, without a barrier."""

import dataclasses
import functools
import hashlib
import json
import re

import browser
import numpy as np
import pytest
from known_law import DOMAINS, swarm

from pike_mixing.errors import InputError
from pike_mixing.finders import cross_validation, saved_predictors
from pike_mixing.finders.best_run import Best
from pike_mixing.finders.exposure_law import ExposureLaw
from pike_mixing.finders.gaussian_process import GaussianProcess
from pike_mixing.finders.interface import Inventory
from pike_mixing.finders.mixing_law import MixingLaw
from pike_mixing.finders.regmix import RegMix
from pike_mixing.finders.scheffe import Scheffe
from pike_mixing.mixtures import explore, export
from pike_mixing.mixtures.trainer_formats import FORMATS

CSP = re.compile(r"<meta http-equiv=\"Content-Security-Policy\".*?>")


TARGET = {"code": 2, "prose": 1, "talk": 0}
KINDS = {
    "law": ("mixing-law", MixingLaw(target=TARGET)),
    "trees": ("regmix", RegMix(samples=2000, rounds=60)),
    "polynomials": ("scheffe", Scheffe(target=TARGET)),
    "processes": ("gaussian-process", GaussianProcess()),
    "exposures": ("exposure-law", ExposureLaw()),
}
# A number of tokens that no short text holds.
TEXT = Inventory(1e9 / 3, np.array([1e8 / 7, 2e8, 4e8]))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A saved predictor of each kind, of a known law's runs; its path."""

    @functools.cache
    def made(kind):
        name, finder = KINDS[kind]
        for package in finder.packages:
            pytest.importorskip(package)
        runs = swarm(30, noise=0.02)
        if kind == "exposures":
            known = {"tokens": TEXT.tokens, "available_K": TEXT.available_K}
            read = [dataclasses.replace(run, **known) for run in runs.runs]
            runs = dataclasses.replace(runs, runs=read, final=TEXT)
        record = saved_predictors.predictor_record(name, finder, runs, finder.find(runs))
        path = tmp_path_factory.mktemp(kind) / "p.json"
        path.write_text(json.dumps(record), encoding="utf-8")
        return path

    return made


@pytest.fixture
def law(saved):
    return saved("law")


def inside(tmp_path, path, script, **page):
    """An answer of the page, whose policy lets a test's script in."""
    visit = browser.Visit(CSP.sub("", explore.render_page(path, **page)), script)
    return browser.answers(tmp_path, visit)[0]


@pytest.mark.workflow
@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_the_librarys(saved, tmp_path, kind):
    path = saved(kind)
    # Beyond the measured mixtures too, and at the edges.
    weights_SxK = np.random.default_rng(3).dirichlet([0.4] * 3, 60)
    weights_SxK[:3] = np.eye(3)
    found = inside(
        tmp_path,
        path,
        f"""const mixtures = {json.dumps(weights_SxK.tolist())};
        return mixtures.map((w) => ({{
          target: targetLoss(w), all: data.trees ? [] : losses(w), far: distance(w) > 1e-6,
        }}));""",
    )
    kept = saved_predictors.load_predictor(path)
    expected_S = kept.predictor.losses(weights_SxK)
    np.testing.assert_allclose([one["target"] for one in found], expected_S, rtol=0, atol=1e-9)
    outside = [bool(cross_validation.is_outside_hull(w, kept.measured_NxK)) for w in weights_SxK]
    assert [one["far"] for one in found] == outside
    assert 5 < sum(outside) < 55
    if kind != "trees":
        goal = kept.swarm.final_or_common_inventory()
        epochs_SxK = None if goal is None else goal.epochs(weights_SxK)
        model = getattr(kept.predictor, "model", None)
        all_SxM = (
            kept.predictor.laws.losses(weights_SxK)
            if model is None
            else model.losses(weights_SxK, epochs_SxK)
        )
        np.testing.assert_allclose([one["all"] for one in found], all_SxM, rtol=0, atol=1e-9)


@pytest.mark.workflow
def test_an_exposure_law_follows_the_tokens_that_are_typed_in(saved, tmp_path):
    exposures = saved("exposures")
    found = inside(
        tmp_path,
        exposures,
        """
        const type = (id, value) => {
          const box = document.getElementById(id);
          box.value = value;
          box.dispatchEvent(new Event("input"));
        };
        const warned = () => /found optimum/.test(document.getElementById("warnings").textContent);
        const w = [0.2, 0.5, 0.3], told = [[targetLoss(w), warned()]];
        type("budget", "2B");
        type("tokens-1", "50M");
        weights = w;
        told.push([targetLoss(w), warned(), JSON.parse(guess("", "")).prediction.epochs]);
        type("budget", "");
        type("tokens-1", "none");
        told.push([targetLoss(w), warned()]);
        return told;
        """,
    )
    kept, weights_1xK = saved_predictors.load_predictor(exposures), np.array([[0.2, 0.5, 0.3]])
    epochs_1xK = weights_1xK * 2e9 / [1e8 / 7, 5e7, 4e8]
    losses = [kept.predictor.losses(weights_1xK, e)[0] for e in (None, epochs_1xK, None)]
    assert [one[0] for one in found] == pytest.approx(losses, abs=1e-9)
    assert [one[1] for one in found] == [False, True, False]
    assert list(found[1][2].values()) == pytest.approx(epochs_1xK[0].tolist(), rel=1e-12)
    assert losses[0] != pytest.approx(losses[1], abs=1e-3)


@pytest.mark.workflow
def test_sliders_keep_the_sum_and_mark_caps(law, tmp_path):
    found = inside(
        tmp_path,
        law,
        """
        const press = (id) => document.getElementById(id).click();
        const type = (id, value, kind) => {
          const box = document.getElementById(id);
          box.value = value;
          box.dispatchEvent(new Event(kind));
        };
        press("equal");
        const equal = weights.slice();
        press("keep-2");
        type("slider-0", "500", "input");
        const moved = weights.slice();
        type("share-1", "90", "change");
        const most = weights.slice();
        type("slider-0", "0", "input");
        const { textContent: shown, className: red } = document.getElementById("epochs-2");
        const warned = document.getElementById("warnings").textContent;
        const spoken = document.getElementById("slider-2").getAttribute("aria-valuetext");
        press("optimum");
        await new Promise((done) => setTimeout(done, 600));
        return { equal, moved, most, epochs: shown, red, warned, spoken, best: weights,
                 said: document.getElementById("said").textContent };
        """,
        inventory_override={"talk": 1e6},
        budget_override=6e6,
        mark_above_epochs=1.5,
    )
    assert found["equal"] == pytest.approx([1 / 3] * 3)
    # A third is kept; a half leaves a sixth.
    assert found["moved"] == pytest.approx([1 / 2, 1 / 6, 1 / 3])
    assert found["most"] == pytest.approx([0, 2 / 3, 1 / 3])
    # 6M x 1/3 of 1M are 2 epochs.
    assert found["epochs"].startswith("2.00 over 1.5")
    assert "over" in found["red"]
    assert "Read more than 1.5 times: talk" in found["warned"]
    assert found["spoken"] == "33.33 %, 2.00 over 1.5 epochs"
    kept = saved_predictors.load_predictor(law)
    assert found["best"] == kept.optimum_K.tolist()
    loss = kept.predictor.losses(kept.optimum_K[None])[0]
    assert found["said"].startswith(f"Predicted loss {loss:.4f} nats, \u2212")


@pytest.mark.workflow
def test_a_mixture_is_moved_and_written_down_by_keys_alone(law, tmp_path):
    (tmp_path / "m.html").write_text(explore.render_page(law), encoding="utf-8")
    keys = browser.Keyboard(tmp_path, tmp_path / "m.html")
    try:
        keys.go_to("equal")
        keys.press("Enter")
        keys.go_to("keep-2")
        keys.press(" ")
        # The next round of Tabs begins at the first part again.
        keys.go_to("slider-0")
        keys.press("ArrowRight", 50)
        # A slider has 1000 places: 333 for a third, and 50 more.
        assert keys.value("weights") == pytest.approx([0.383, 2 / 3 - 0.383, 1 / 3])
        keys.go_to("write")
        keys.press("Enter")
        assert len(keys.value("document.getElementById('hash').textContent")) == 64
    finally:
        keys.process.kill()
        keys.process.wait()


@pytest.mark.workflow
def test_copies_are_those_of_export_and_a_guess_has_its_hash(law, tmp_path):
    weights = {"code": 0.25, "prose": 0.75, "talk": 0.0}
    found = inside(
        tmp_path,
        law,
        f"""
        weights = {json.dumps(list(weights.values()))};
        const all = {{}};
        const unread = {{}};
        for (const name of Object.keys(data.formats)) {{
          all[name] = filled(name, weights, "/my data's/*", 1001);
          unread[name] = filled(name, weights, "/d/*.Parquet", 1001).unread;
        }}
        document.getElementById("note").value = "café <b> 😀";
        document.getElementById("write").click();
        document.getElementById("trainer").value = "nemo";
        document.getElementById("trainer").dispatchEvent(new Event("change"));
        return {{ all, unread, hash: document.getElementById("hash").textContent,
          guess: document.getElementById("guess-text").value,
          shown: document.querySelector("[data-file]").value, long: sha256("a".repeat(1000)) }};
        """,
    )
    plan = export.plan_of_shares(weights, "x")
    paths = {name: f"/my data's/{name}" for name in DOMAINS}
    for name, one in found["all"].items():
        if " " in FORMATS[name].forbidden:
            assert one["bad"] == [" "]
            continue
        files, _ = export.export(name, plan, paths, rows=1001)
        assert (one["files"], one["bad"], one["gone"]) == (files, [], ["talk"]), name
    # What `export` refuses is not shown.
    for name, endings in found["unread"].items():
        files = {domain: f"/d/{domain}.Parquet" for domain in DOMAINS}
        if endings:
            with pytest.raises(InputError, match=r"reads no \.Parquet: give"):
                export.export(name, plan, files, rows=1001)
        else:
            export.export(name, plan, files, rows=1001)
    assert found["unread"]["nemo"] == ["Parquet"] * 2
    assert '"0.25", "/data/code"' in found["shown"]
    assert found["hash"] == hashlib.sha256(found["guess"].encode()).hexdigest()
    assert found["long"] == hashlib.sha256(b"a" * 1000).hexdigest()
    guess = json.loads(found["guess"])
    assert guess["predictor"] == hashlib.sha256(law.read_bytes()).hexdigest()
    assert guess["mixture"] == weights
    loss = saved_predictors.load_predictor(law).predictor.losses(
        np.array([list(weights.values())])
    )[0]
    assert guess["prediction"]["target"]["value"] == pytest.approx(loss, abs=1e-9)


@pytest.mark.workflow
@pytest.mark.parametrize(
    ("kind", "width", "options"),
    [("law", 360, ()), ("exposures", 1440, (browser.DARK,)), ("processes", 800, ())],
)
def test_axe_finds_no_barrier(saved, kind, tmp_path, width, options):
    page = explore.render_page(saved(kind), inventory_override={"talk": 1e6}, budget_override=9e6)
    text = CSP.sub("", page)
    text = text.replace("show();\n</script>", 'show();\nat("write").click();\n</script>')
    visit = browser.barriers(tmp_path, text, width)
    (found,) = browser.answers(tmp_path, visit, options=options)
    assert found["told"] == []
    assert found["passed"] > 15
    assert found["dark"] == bool(options)
    assert found["wide"] <= width


def test_a_page_is_small_needs_no_network_and_says_what_it_was_given(said, law, tmp_path):
    out = tmp_path / "m.html"
    told = said("explore", law, "-o", out, "--budget", "2.5e10", "--inventory", "code=1e9")
    assert told == f"{out}: open it in a browser; it needs no network\n"
    text = out.read_text(encoding="utf-8")
    assert len(text.encode()) < explore.LARGEST
    assert "default-src 'none'" in text
    assert re.findall(r"(?:src|href)=\"(?!#)", text) == []
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    assert (data["budget"], data["inventory"], data["epochs"]) == ("25B", ["1B", "", ""], "4")
    assert data["targetName"] == "Weighted mean of 2 losses"


def test_a_domains_name_ends_no_script(law, tmp_path):
    text = law.read_text(encoding="utf-8").replace('"code"', r'"</script><b>\"\u2028"')
    (tmp_path / "p.json").write_text(text, encoding="utf-8")
    page = explore.render_page(tmp_path / "p.json")
    assert page.count("</script>") == explore.TEMPLATE.read_text(encoding="utf-8").count(
        "</script>"
    )
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    assert data["domains"][0] == '</script><b>"\u2028'


def test_what_no_page_can_hold_is_refused(said, law, saved, tmp_path, monkeypatch):
    runs = swarm(12)
    with pytest.raises(InputError, match="predicts no losses"):
        saved_predictors.predictor_record("best", Best(), runs, Best().find(runs))
    for option, value in (("--budget", "nan"), ("--epochs", "0"), ("--inventory", "code=-1")):
        told = said("explore", law, option, value, code=2)
        assert option in told
        assert "must be a finite number above 0" in told
    assert "'cod' is no domain" in said("explore", law, "--inventory", "cod=1", code=2)
    record = json.loads(law.read_text(encoding="utf-8"))
    (tmp_path / "two.json").write_text(json.dumps(record | {"phases": [1, 2, 3]}))
    assert "is of 3 phases" in said("explore", tmp_path / "two.json", code=2)
    assert "give another path" in said("explore", law, "-o", tmp_path, code=2)
    monkeypatch.setattr(explore, "LARGEST", 20_000)
    assert "fewer trees (--set rounds=200)" in said("explore", saved("trees"), code=2)
