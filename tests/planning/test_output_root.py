"""What an output root was started with: read again, and named in the command that makes a file."""

import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from pike_mixing.errors import InputError
from pipeline.planning import outdated_work, output_root, planner
from pipeline.results import result_manifests
from pipeline.runtime import atomic_files


@pytest.fixture
def started(config, tmp_path, monkeypatch):
    """An experiment of two files and options, whose results are in `other`."""
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(yaml.safe_dump(config()), encoding="utf-8")
    Path("b.yaml").write_text("training: {text: {peak_learning_rate: 0.02}}\n", encoding="utf-8")
    options = {"results": "other", "training": {"text": {"beta2": 0.5}}}
    plan, _ = planner.plan_config_files([Path("a.yaml"), Path("b.yaml")], options)
    output_root.write_settings(plan)
    return Path("other")


@pytest.mark.slow
def test_results_are_compared_with_all_that_they_were_started_with(started):
    plan = outdated_work.compare_first_root_if_plannable(started.absolute()).plan
    assert plan.results == "other"
    recipe = plan.config["training"]["text"]
    assert (recipe["peak_learning_rate"], recipe["beta2"]) == (0.02, 0.5)
    Path("b.yaml").unlink()
    assert outdated_work.compare_first_root_if_plannable(started.absolute()) is None


def test_settings_that_somebody_spoiled_are_written_again(started):
    plan = outdated_work.compare_first_root_if_plannable(started.absolute()).plan
    spoiled = [*started.glob("settings/tables/*.json"), *started.glob("runs/*/*/*/*/run.json")][:3]
    before = {path: path.read_text(encoding="utf-8") for path in started.rglob("*.json")}
    spoiled[0].write_text("{", encoding="utf-8")
    spoiled[1].write_text("[1]", encoding="utf-8")
    spoiled[2].unlink()
    output_root.write_settings(plan)
    assert {path: path.read_text(encoding="utf-8") for path in started.rglob("*.json")} == before


def test_a_folder_whose_label_names_no_experiment_is_refused(started):
    plan = outdated_work.compare_first_root_if_plannable(started.absolute()).plan
    (started / "experiment.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match=r"experiment\.json does not say which exp"):
        output_root.refuse_root_of_other_experiment(plan)


@pytest.mark.slow
def test_results_of_another_folder_are_not_compared_with_what_is_here(started, tmp_path):
    (tmp_path / "linked").symlink_to(started)
    assert outdated_work.compare_first_root_if_plannable(tmp_path / "linked")
    shutil.copytree(started, tmp_path / "copied")
    assert outdated_work.compare_first_root_if_plannable(tmp_path / "copied") is None


COMMAND = (
    "snakemake --cores 2 other/tables/x.md --configfile a.yaml b.yaml "
    """--config results=other 'training={"text": {"beta2": 0.5}}'"""
)


@pytest.mark.slow
def test_the_command_names_all_that_an_experiment_was_started_with(started):
    forced = COMMAND.replace("--cores 2", "--cores 2 --force")
    path = started / "tables" / "x.md"
    assert (
        output_root.command_to_make(path) == output_root.command_to_make(path.absolute()) == COMMAND
    )
    with pytest.raises(InputError) as told:
        result_manifests.refuse_altered_or_unvouched(path, "table")
    assert f"`{forced}`" in str(told.value)


@pytest.mark.parametrize(
    ("file", "only"),
    [
        ("pike.duckdb", ""),
        ("report/index.html", ""),
        ("tables/table2.md", " --only table2"),
        ("figures/figure6.svg", " --only figure6"),
        # What was restored of those that read it; of none, all that do.
        ("databases/table-table2.duckdb", " --only figure6 table2"),
        ("databases/table-table1.duckdb", " --only figure4 table1"),
    ],
)
def test_what_was_restored_is_restored_again(tmp_path, monkeypatch, file, only):
    monkeypatch.chdir(tmp_path)
    reads = {
        "table": {"table1": "databases/table-table1", "table2": "databases/table-table2"},
        "figure": {"figure6": "databases/table-table2", "figure2": "databases/table-table2"},
    }
    reads["figure"]["figure4"] = "databases/table-table1"
    atomic_files.write_json(Path("kept/recorded/manifest.json"), {"reads": reads})
    made = {"inputs": {"../../kept/recorded/manifest.json": "0"}}
    atomic_files.write_json(Path("mine/databases/table-table2.manifest.json"), made)
    for name in ("tables/table2", "figures/figure6"):
        atomic_files.write_json(Path(f"mine/{name}.manifest.json"), {})
    again = f"pike restore kept/recorded --out mine{only}"
    for path in (Path("mine", file), Path("mine", file).absolute()):
        assert output_root.command_to_make(path, force=True) == again


@pytest.mark.parametrize(
    ("stamp", "further"),
    [
        ({"started_with": ["mine.yaml"]}, " --configfile mine.yaml"),
        ({"started_with": ["config.yaml"], "options": {"n": 3}}, " --config n=3"),
        ({"started_with": ["config.yaml"], "options": {}}, ""),
        ({"experiment": "settings of a database"}, ""),
    ],
)
def test_a_command_says_no_more_than_differs_from_the_default(
    tmp_path, monkeypatch, stamp, further
):
    monkeypatch.chdir(tmp_path)
    atomic_files.write_json(tmp_path / "results/experiment.json", stamp)
    told = output_root.command_to_make(Path("results/my tables/x.md"), force=True)
    assert shlex.split(told)[4] == "results/my tables/x.md"
    assert told == f"snakemake --cores 2 --force 'results/my tables/x.md'{further}"


@pytest.mark.parametrize(
    ("folder", "results", "says"),
    [
        ("a", ".git", r"\.git holds what is not made here"),
        ("a", "pipeline/mine", "pipeline holds what is not made here"),
        ("a", "x/../workflow", "workflow holds what is not made here"),
        ("what?", "results", r"DuckDB opens no database .* for the \? in it: rename the folder"),
        ("back\\slash", "results", r"DuckDB opens no database .* for the \\ in it"),
        ("a", "loop", "loop is no folder"),
        ("a", "file", "file is no folder"),
    ],
)
def test_a_folder_that_can_hold_no_results_is_refused(tmp_path, monkeypatch, folder, results, says):
    (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / folder)
    Path("loop").symlink_to("loop")
    Path("file").touch()
    with pytest.raises(InputError, match=says):
        output_root.refuse_unusable_root(results)
    for fine in ("results", "../git/results", "x#%[y]*/results"):
        if folder == "a":
            output_root.refuse_unusable_root(fine)
