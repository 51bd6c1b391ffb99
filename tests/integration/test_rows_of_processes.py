"""On one and three processes every row is read once, whoever deals them; a second cut is told."""

import json
from pathlib import Path

import pytest
from ranks import torchrun

for library in ("accelerate", "datasets", "lightning", "transformers"):
    pytest.importorskip(library, reason="make setup EXTRAS=trainers")

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 3])
def test_every_row_is_read_once_or_the_second_cut_is_told(processes, tmp_path):
    code, said = torchrun(processes, HERE / "deal_job.py", tmp_path)
    assert code == 0, said[-3000:]
    result = json.loads((tmp_path / f"{processes}.json").read_text())
    assert len(result["ways"]) == 18
    assert {way: said for way, said in result["ways"].items() if said != "once"} == {}
    if processes > 1:
        place = result["cut"].pop("place")
        assert "leave `place` away" in place
        told = {**result["cut"], **result["last"]}
        assert len(told) == 12
        assert {
            cut: said
            for cut, said in told.items()
            if not said.startswith("InputError: domain 'a'")
            or "give every process the whole data set, in the same order" not in said
        } == {}
