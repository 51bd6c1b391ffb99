"""The examples for other trainers run, and the page shows what they run."""

import gzip
import json
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


@pytest.mark.slow
def test_the_example_takes_text_files_to_a_trainer(capsys, monkeypatch, tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    pa = pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    texts = {
        "prose": [p.read_text(encoding="utf-8") for p in sorted((ROOT / "docs").glob("*.md"))],
        "code": [p.read_text() for p in sorted((ROOT / "pike_mixing/rules").glob("*.py"))],
        "noise": ["0 1 " * 9000],
    }
    (tmp_path / "books").mkdir()
    for n, text in enumerate(texts["prose"]):
        (tmp_path / f"books/{n}.txt").write_text(text, encoding="utf-8")
    with gzip.open(tmp_path / "code.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts["code"])
    pa.parquet.write_table(pa.table({"text": texts["noise"]}), tmp_path / "noise.parquet")
    module = runpy.run_path(str(script("from_text")))
    module["main"](["prose=books/*.txt", "code=code.jsonl.gz", "noise=noise.parquet"])
    shown = re.findall(r"^(\w+): loss ([\d.]+), share ([\d.]+)$", capsys.readouterr().out, re.M)
    assert [name for name, *_ in shown] == ["prose", "code", "noise"]
    losses, shares = ([float(row[n]) for row in shown] for n in (1, 2))
    # Untrained: ln 2000 = 7.6. Two symbols in turn are learnt at once, and hand over their rows.
    assert losses[2] < 1 < losses[1] < 7 > losses[0]
    assert sum(shares) == pytest.approx(1, abs=0.002)
    assert shares[2] < 1 / 3
    # The rows are the text, whole and in order.
    tokenizer = module["small_tokenizer"](texts["code"])
    rows = module["pack"](texts["code"], tokenizer)
    joined = tokenizer.decode([i for row in rows for i in row["input_ids"].tolist()])
    assert "</s>".join(texts["code"]).startswith(joined)


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
