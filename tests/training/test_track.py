"""What `pike track` sends is what the records hold, read back with the trackers' own packages."""

import json
import os
import shutil
import struct
import sys

import pyarrow.parquet as pq
import pytest

from pike_mixing.errors import InputError
from pipeline import __main__
from pipeline.evaluation.evaluate import TABLES, write_tables
from pipeline.runtime import atomic_files
from pipeline.training import metric_log, track

RUN = "languages/tiny/pike/seed0"
PERPLEXITY = "perplexities/nll/hard"
ACCURACY = "accuracies/value/piqa/5/cloze/accuracy"


@pytest.fixture(scope="module")
def results(piked, tmp_path_factory):
    """A results folder with an evaluated run of PiKE, 6 steps long."""
    results = tmp_path_factory.mktemp("results")
    run = results / RUN
    shutil.copytree(piked, run)
    rows = {name: [] for name in TABLES}
    rows["perplexities"].append(("hard", 2.5, 12.2, 1.5, 100, 0.1))
    rows["accuracies"].append(("piqa", 5, "cloze", "accuracy", 52.0, 1.0, 200))
    write_tables(run / "evaluations" / "step6", 6, rows)
    atomic_files.write_json(run / "evaluations" / atomic_files.MANIFEST, {})
    made = atomic_files.read_json(run / atomic_files.MANIFEST)
    # As where results and corpora lie in one folder.
    made["inputs"] = {f"../../../../corpora/{n}": sha256 for n, sha256 in made["inputs"].items()}
    (run / atomic_files.MANIFEST).write_text(json.dumps(made))
    return results


def column(results, table, name, **of):
    rows = pq.read_table(results / RUN / f"{table}.parquet").to_pylist()
    return [(r["step"], r[name]) for r in rows if all(r[k] == v for k, v in of.items())]


def expected(results):
    """Some curves by name."""
    return {
        "steps/loss": column(results, "steps", "loss"),
        "domain_losses/loss/easy": column(results, "domain_losses", "loss", domain="easy"),
        "weights/weight/hard": column(results, "weights", "weight", domain="hard"),
        "gradient_statistics/variance/easy": column(
            results, "gradient_statistics", "variance", domain="easy"
        ),
        PERPLEXITY: [(6, 2.5)],
        ACCURACY: [(6, 52.0)],
    }


@pytest.fixture
def made_from(results):
    made = atomic_files.read_json(results / RUN / atomic_files.MANIFEST)
    return {
        "training.steps": 6,
        "made_from.weights_sha256": made["weights_sha256"],
        "made_from.code.fingerprint": made["code"]["fingerprint"],
    }


def test_every_step_is_sent_once_with_settings_and_origin(results, made_from):
    run = track._read_tracked_run(results, results / RUN)
    assert run.name == RUN
    assert made_from.items() <= run.settings.items()
    # MLflow takes names for paths.
    assert [name for name in run.settings if name != os.path.normpath(name)] == []
    assert [step.step for step in run.steps] == [0, 1, 2, 3, 4, 5, 6]
    for name, curve in expected(results).items():
        assert [(s.step, s.numbers[name]) for s in run.steps if name in s.numbers] == curve
    assert [s.step for s in run.steps if "gradient_statistics/loss/easy" in s.numbers] == [0, 2, 4]


def test_of_a_run_that_goes_on_there_is_what_is_written_and_alarms_are_texts(results, tmp_path):
    copy = shutil.copytree(results, tmp_path / "copy")
    whole = track._read_tracked_run(copy, copy / RUN)
    (copy / RUN / atomic_files.MANIFEST).unlink()
    metric_log.RunRecords(copy / RUN, ()).cut_after_checkpoint(3)
    alarm = {"table": "alarms", "step": 3, "kind": "worse", "domain": "hard", "message": "rises"}
    with (copy / RUN / metric_log.LOG).open("a") as log:
        log.write(json.dumps(alarm) + "\n")
    run = track._read_tracked_run(copy, copy / RUN)
    assert run.steps[:3] == whole.steps[:3]
    assert run.steps[3] == (3, {}, {"alarms/message/worse/hard": "rises"})
    assert run.key != whole.key


def test_tensorboard_has_the_curves(results, tmp_path, made_from):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for _ in range(2):  # The second replaces the first.
        said = track.track_runs(results, to="tensorboard", out=tmp_path)
    assert said == f"{tmp_path}/tensorboard: 1 runs"
    found = accumulator.EventAccumulator(str(tmp_path / "tensorboard" / RUN)).Reload()
    for name, curve in expected(results).items():
        assert [(e.step, e.value) for e in found.Scalars(name)] == [
            (step, pytest.approx(value)) for step, value in curve
        ]
    text = found.Tensors("settings/text_summary")[0].tensor_proto.string_val[0].decode()
    assert made_from.items() <= json.loads(text.strip("`").removeprefix("json")).items()


@pytest.mark.slow
def test_mlflow_has_the_curves_and_a_server_gets_a_run_once(
    results, tmp_path, made_from, monkeypatch
):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    track.track_runs(results, to="mlflow", out=tmp_path)
    uri = f"sqlite:///{tmp_path}/mlflow/mlflow.db"
    client = mlflow.MlflowClient(uri)
    experiment = client.get_experiment_by_name(track.PROJECT)
    assert experiment.artifact_location == (tmp_path / "mlflow" / "artifacts").as_uri()
    [found] = client.search_runs([experiment.experiment_id])
    assert (found.info.run_name, found.info.status) == (RUN, "FINISHED")
    assert {name: str(value) for name, value in made_from.items()}.items() <= (
        found.data.params.items()
    )
    for name, curve in expected(results).items():
        history = client.get_metric_history(found.info.run_id, name)
        assert sorted((m.step, m.value) for m in history) == curve
    # The file stands for a server: what is cut short is sent anew, what is whole is not.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    client.set_terminated(found.info.run_id, "FAILED")
    for _ in range(2):
        track.track_runs(results, to="mlflow", out=tmp_path / "other")
        [again] = client.search_runs([experiment.experiment_id])
    assert again.info.run_id != found.info.run_id
    assert len(client.get_metric_history(again.info.run_id, "steps/loss")) == 6


def logged(data):
    """The records of a file of W&B: a log as LevelDB has them, in blocks of 32 KiB."""
    place, record = 7, b""
    while len(data) - place >= 7:
        if (left := -place % 2**15) < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        record += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # Whole, or the last part.
            yield record
            record = b""


@pytest.mark.slow
def test_wandb_has_the_curves(results, tmp_path, made_from):
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    track.track_runs(results, to="wandb", out=tmp_path)
    [path] = (tmp_path / "wandb").glob("wandb/offline-run-*/*.wandb")
    curves, told = {}, {}
    for data in logged(path.read_bytes()):
        record = Record.FromString(data)
        told |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        if record.HasField("history"):
            values = {
                item.key or "/".join(item.nested_key): json.loads(item.value_json)
                for item in record.history.item
            }
            for name, value in values.items():
                curves.setdefault(name, []).append((values["_step"], value))
        if record.HasField("run"):
            assert (record.run.display_name, record.run.project) == (RUN, track.PROJECT)
    for name, curve in expected(results).items():
        assert curves[name] == curve
    assert made_from.items() <= told.items()


@pytest.mark.parametrize(
    ("to", "package", "extra"),
    [
        ("wandb", "wandb", "wandb"),
        ("mlflow", "sqlalchemy", "mlflow"),
        ("tensorboard", "tensorboard", "tensorboard"),
    ],
)
def test_a_missing_package_is_named_with_what_installs_it(
    results, tmp_path, monkeypatch, capsys, to, package, extra
):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    arguments = ["track", str(results), "--to", to, "--out", str(tmp_path / "out")]
    assert __main__.main(arguments) == 2
    said = f"{package} is not installed: in the clone, run `make setup EXTRAS={extra}`"
    assert said in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []


def test_a_damaged_record_is_named(results, tmp_path):
    copy = shutil.copytree(results, tmp_path / "copy")
    (copy / RUN / "weights.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match=r"seed0: .*`pike verify .*seed0` names what is damaged"):
        track._read_tracked_run(copy, copy / RUN)
