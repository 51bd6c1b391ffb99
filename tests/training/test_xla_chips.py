"""Four chips that train one run, against one: virtual ones of PJRT's CPU.

`make test-tpu` runs it. Each number of chips has a process of its own.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import test_xla
import torch
from faults import cut_off
from test_xla import PIKE, STEPS
from trained import apart

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files, pick_device, xla_chips
from pipeline.training import inputs

DRIVER = Path(__file__).with_name("chip_runs.py")
TESTS = str(Path(__file__).parents[1])
virtual = [
    pytest.mark.device,
    pytest.mark.skipif(
        importlib.util.find_spec("torch_xla") is None
        or os.environ.get("PJRT_DEVICE", "CPU") != "CPU",
        reason="make setup-tpu, make test-tpu; a TPU's number of chips is what it is",
    ),
]

# Ten rows and micro-batches of three and two are no multiples of four chips.
TRAINING = {**test_xla.TRAINING, "microbatch_rows": 3}
METHODS = {name: test_xla.METHODS[name] for name in ("mix", "pike", "famo", "pcgrad", "adatask")}
METHODS |= {"doremi": {"rule": "doremi", "method": {"reference": "mix", "rate": 2.0}}}
PROBE = {"rows": 5, "microbatch": 2, "checkpoints": "last"}
# Windows of 8 tokens: 25 rows a batch are no multiple of four chips.
EVALUATION = {"rows": 45, "batch_tokens": 200, "checkpoints": "last"}
EVALUATION |= {"choice": {"items": 20, "context": 5, "candidate": 4}}
COLUMNS = {"steps": ("loss",), "domain_losses": ("loss",), "weights": ("count",)}
STATISTICS = {
    "steps": ("gradient_norm",),
    "gradient_statistics": ("squared_norm", "variance", "loss", "rows"),
    "coefficients": ("coefficient",),
    "weights": ("weight",),
}


@pytest.fixture(scope="module")
def on_chips(tmp_path_factory):
    """Trains runs on so many chips: what `chip_runs.train` found for each."""

    def train_all(number, work, programs=None):
        folder = tmp_path_factory.mktemp("work")
        atomic_files.write_json(folder / "work.json", work)
        flags = f"--xla_dump_to={programs} --xla_dump_hlo_as_text" if programs else ""
        done = subprocess.run(
            [sys.executable, DRIVER, folder / "work.json", folder / "answer.json"],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(
                    [TESTS, *filter(None, [os.environ.get("PYTHONPATH")])]
                ),
                "PJRT_DEVICE": "CPU",
                "CPU_NUM_DEVICES": str(number),
                "XLA_FLAGS": flags,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=1800,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads((folder / "answer.json").read_text(encoding="utf-8"))

    return train_all


@pytest.fixture(scope="module")
def pair(tmp_path_factory, write_run, corpora, mixed, on_chips):
    """All methods on one chip and on four: for each, folders by number, and what was found."""
    found = {}
    for number in (1, 4):
        root, work = tmp_path_factory.mktemp(f"chips{number}"), []
        atomic_files.write_json(root / "probe.json", PROBE)
        for name, values in METHODS.items():
            run = write_run(root / name, training=TRAINING, **values)
            work.append({"run": str(run), "corpora": str(corpora)})
        atomic_files.write_json(root / "evaluation.json", EVALUATION)
        work[0]["probe"] = str(root / "probe.json")
        work[0]["evaluation"] = str(root / "evaluation.json")
        work[-1]["reference"] = str(mixed)
        if number == 4:
            run = write_run(root / "sharded", training=TRAINING, **METHODS["pike"])
            work.append({"run": str(run), "corpora": str(corpora), "shard": True})
        answers = on_chips(number, work)
        found[number] = root, dict(zip([*METHODS, "sharded"], answers, strict=False))
    return found


class TestFourChips:
    pytestmark = virtual

    @pytest.mark.parametrize("name", [*METHODS, "sharded"])
    def test_fifty_steps_have_the_losses_and_statistics_of_one(self, pair, record_property, name):
        one, four = pair[1][0] / name.replace("sharded", "pike"), pair[4][0] / name
        for bound, columns in ((1e-6, COLUMNS), (1e-5, STATISTICS)):
            found = {f"{t}.{c}": apart(four, one, t, c) for t, own in columns.items() for c in own}
            record_property(f"largest relative differences below {bound}", found)
            assert max(found.values()) <= bound, found

    @pytest.mark.parametrize("name", [*METHODS, "sharded"])
    def test_nothing_is_compiled_late(self, pair, name):
        compiled = pair[4][1][name]["compiled"]
        assert set(compiled[6:]) == {compiled[5]}, compiled

    def test_a_probe_measures_the_same(self, pair):
        one, four = (
            pq.read_table(pair[n][0] / f"mix/probes/step{STEPS}.parquet").to_pylist()[0]
            for n in (1, 4)
        )
        for column in ("cosine", "ratio", "cosine_corrected"):
            assert four[column] == pytest.approx(one[column], rel=1e-5)

    def test_an_evaluation_measures_the_same(self, pair):
        for table, columns in {
            "documents": ("nll",),
            "choices": ("sum_log_likelihood", "unconditional"),
        }.items():
            one, four = (
                pq.read_table(pair[n][0] / f"mix/evaluations/step{STEPS}/{table}.parquet")
                for n in (1, 4)
            )
            for column in columns:
                numbers = [t[column].combine_chunks() for t in (one, four)]
                ours, theirs = (getattr(c, "flatten", lambda c=c: c)() for c in numbers)
                assert theirs.to_pylist() == pytest.approx(ours.to_pylist(), rel=1e-5)

    def test_weights_are_whole_or_divided_with_gradients_and_moments(self, pair):
        held = pair[4][1]["sharded"]["divided"]
        assert {len(of) for of in held.values()} == {4}
        for name, of in held.items():
            divided = ["devices=[4,1]" in spec for spec in of.values()]
            assert set(divided) == {"norm" not in name}, (name, of)
        whole = pair[4][1]["pike"]["divided"]
        assert not any("devices" in spec for of in whole.values() for spec in of.values()), whole

    @pytest.mark.parametrize(("began", "goes_on"), [(1, 4), (4, 1)])
    def test_what_one_number_began_the_other_ends(
        self, pair, on_chips, corpora, tmp_path, began, goes_on
    ):
        whole = pair[goes_on][0] / "pike"
        run = cut_off(pair[began][0] / "pike", tmp_path / "run", STEPS)
        on_chips(goes_on, [{"run": str(run), "corpora": str(corpora)}])
        assert atomic_files.read_json(run.parent / "starts.json") == [0, 25]
        assert apart(run.parent, whole, "steps", "loss") <= 1e-6

    def test_chips_exchange_each_gradient_once_and_no_activation(
        self, tmp_path, write_run, corpora, on_chips
    ):
        recipe = {"steps": 3, "rows": 8, "statistics_microbatch": 4, "checkpoint_every": 3}
        model = {"layers": 2}
        pike = {**PIKE, "rows": 8}
        work = [
            # The loss is cut into pieces of two columns.
            {"run": write_run(tmp_path / "mix", training=recipe, model=model), "chunk": 16},
            {
                "run": write_run(
                    tmp_path / "pike", training=recipe, model=model, rule="pike", method=pike
                )
            },
        ]
        work = [{**w, "run": str(w["run"]), "corpora": str(corpora)} for w in work]
        programs = str(tmp_path / "programs")
        found = on_chips(4, [{**w, "programs": programs} for w in work], programs)
        mix, pike = ([p for p in one["programs"] if p] for one in found)
        # Eight parameters a block, the last norm, and the embedding at both ends. Then the rows'
        # losses and the norm, to be read.
        gradients = 2 * 8 + 1 + 2
        assert sorted(mix, key=str) == [{"all-gather": 1}, {"all-reduce": gradients}]
        # A measured pass adds a domain's loss over the chips besides.
        assert sorted(pike, key=str)[-1] == {"all-reduce": gradients + 1}
        assert not {"collective-permute", "all-to-all"} & {what for p in pike for what in p}


def test_a_slice_of_several_hosts_is_refused():
    xla_chips.refuse_several_hosts(1)
    with pytest.raises(InputError, match="a slice of 2 hosts"):
        xla_chips.refuse_several_hosts(2)


@pytest.mark.device
def test_a_host_of_a_slice_is_refused_before_it_waits_for_the_others(monkeypatch):
    tpu = pytest.importorskip("torch_xla._internal.tpu")
    for name, value in {
        "PJRT_DEVICE": "TPU",
        "TPU_SKIP_MDS_QUERY": "1",  # As where the environment says all that the metadata would.
        "TPU_WORKER_HOSTNAMES": "a,b,c,d",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tpu, "num_available_chips", lambda: 4)
    with pytest.raises(InputError, match="a slice of 4 hosts"):
        pick_device.claim_device("xla")
    monkeypatch.setenv("TPU_PROCESS_BOUNDS", "1,2,1")
    with pytest.raises(InputError, match="a slice of 2 hosts"):
        pick_device.claim_device("xla")
    # The chips of one host of a slice, alone.
    monkeypatch.setenv("TPU_PROCESS_BOUNDS", "1,1,1")
    xla_chips.refuse_slice_of_hosts()


def test_fewer_chips_than_were_asked_for_are_refused():
    inputs.refuse_too_few_joined_devices(1, torch.device("cpu"))
    with pytest.raises(InputError, match=r"4 processes or chips were asked for .* is 1: ask for 1"):
        inputs.refuse_too_few_joined_devices(4, torch.device("cpu"))
