"""The stage writes every record, with a manifest, the same each time."""

import pytest

from pipeline.runtime import atomic_files, code_fingerprint
from pipeline.theory import stage

pytestmark = pytest.mark.slow

SMALL = stage.TheorySizes(paths=40, draws=40, seeds=2)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("theory") / "theory"
    stage.write_theory_records(out, SMALL)
    return out


def test_every_record_is_there_and_listed(written):
    manifest = atomic_files.read_json(written / atomic_files.MANIFEST)
    names = {path.name for path in written.iterdir()} - {atomic_files.MANIFEST, ".made-by"}
    assert set(manifest["files"]) == names
    records = ("example", "example_settings", "descent", "iterations")
    assert names == {f"{name}.parquet" for name in records}
    assert manifest["settings"] == {"seed": 0, "paths": 40, "draws": 40, "seeds": 2}
    assert manifest["code"]["fingerprint"] == code_fingerprint.fingerprint("pipeline.theory.stage")


def test_the_same_sizes_give_the_same_bytes(written, tmp_path):
    stage.write_theory_records(tmp_path / "again", SMALL)
    for path in written.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()
