"""The examples for other trainers run, and the page shows what they run."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "trainers.md").read_text(encoding="utf-8")
EXAMPLES = {
    "ddp_loop": "torch",
    "transformers_trainer": "accelerate",
    "lightning_trainer": "lightning",
    "accelerate_loop": "accelerate",
    "fabric_loop": "lightning",
}


def script(name):
    return ROOT / "examples" / "trainers" / f"{name}.py"


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_trains_and_moves_its_weights(name, capsys, monkeypatch, tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip(EXAMPLES[name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    # As where a script is started.
    monkeypatch.syspath_prepend(script(name).parent)
    runpy.run_path(str(script(name)), run_name="__main__")
    last = capsys.readouterr().out.strip().splitlines()[-1].split()
    assert last[::2] == ["counting", "alone"]
    counting, alone = map(float, last[1::2])
    assert counting + alone == pytest.approx(1, abs=0.002)
    # One number alone is soon learnt.
    assert 0.52 < counting < 0.98


@pytest.mark.parametrize("name", [*EXAMPLES, "torchtitan_train"])
def test_the_page_shows_what_the_example_runs(name):
    parts = [p for p in PAGE.split("\n## ") if f"examples/trainers/{name}.py" in p]
    assert len(parts) == 1
    text = re.sub(r"\s+", " ", script(name).read_text(encoding="utf-8"))
    blocks = re.findall(r"```diff\n(.*?)```", parts[0], re.DOTALL)
    assert blocks
    for block in blocks:
        kept = [line[1:] for line in block.splitlines() if not line.startswith("-")]
        assert re.sub(r"\s+", " ", "\n".join(kept)).strip() in text
