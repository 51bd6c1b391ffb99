"""The crate of made-up results, read back by the library that wrote it."""

import shutil
import sys

import pytest

from pike_mixing.errors import InputError
from pipeline.results import archive
from pipeline.results.archive import LICENCE, PROFILES, write_crate_and_summarise


@pytest.fixture
def finished(shown, tmp_path):
    """A results folder as the workflow leaves it."""
    results = tmp_path / "results"
    for name in ("tables", "figures", "report"):
        shutil.copytree(shown / name, results / name)
    shutil.copy(shown / "pike.duckdb", results)
    shutil.copytree(shown / "settings", results / "settings")
    return results


def test_the_crate_says_what_the_workflow_made_of_what(finished, tmp_path):
    rocrate = pytest.importorskip("rocrate.rocrate", reason="make setup EXTRAS=crate")
    assert write_crate_and_summarise(finished, out=tmp_path / "crate").startswith(
        f"{tmp_path}/crate: "
    )
    read = rocrate.ROCrate(tmp_path / "crate")
    assert read.mainEntity.id == "workflow/Snakefile"
    assert read.mainEntity["programmingLanguage"].id.endswith("#snakemake")
    assert {one.id for one in read.root_dataset["conformsTo"]} > set(PROFILES)
    assert read.license in (LICENCE, read.dereference(LICENCE))
    (action,) = [e for e in read.contextual_entities if e.type == "CreateAction"]
    assert action["instrument"] is read.mainEntity
    assert [one.id for one in action["object"]] == ["experiment.json"]
    made = {one.id for one in action["result"]}
    folders = {f"results/{n}/" for n in ("tables", "figures", "report")}
    assert made == {"results/pike.duckdb", *folders}
    for entity in read.data_entities:
        assert (tmp_path / "crate" / entity.id).exists()
    # The last of what is judged of an archive.
    with pytest.raises(InputError, match="'none' is unknown"):
        archive.restore_results_and_summarise(
            tmp_path / "crate", out=tmp_path / "restored", only=["none"]
        )
    database = tmp_path / "crate/results/pike.duckdb"
    assert database.read_bytes() == (finished / "pike.duckdb").read_bytes()


def test_results_that_are_not_whole_are_refused(finished, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rocrate.rocrate", None)
    with pytest.raises(InputError, match="rocrate is not installed: run `make setup EXTRAS=crate`"):
        write_crate_and_summarise(finished, out=tmp_path / "crate")
    shutil.rmtree(finished / "report")
    with pytest.raises(InputError, match=r"results/report: not there: finish the experiment"):
        write_crate_and_summarise(finished, out=tmp_path / "crate")
    assert not (tmp_path / "crate").exists()


def test_a_crate_holds_nothing_that_a_link_leads_to(finished, tmp_path):
    (finished / "tables" / "mine.csv").symlink_to(tmp_path)
    with pytest.raises(InputError, match=r"tables/mine\.csv is a symbolic link"):
        write_crate_and_summarise(finished, out=tmp_path / "crate")
    assert not (tmp_path / "crate").exists()
