"""The examples for other trainers run, and the page shows what they run."""

import gzip
import json
import re
import runpy
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
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


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """Three domains in files of three kinds, in the working directory."""
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = {
        "prose": [p.read_text(encoding="utf-8") for p in sorted((ROOT / "docs").glob("*.md"))],
        "code": [p.read_text() for p in sorted((ROOT / "pike_mixing/rules").glob("*.py"))],
        "noise": ["0 1 " * 9000],
    }
    (tmp_path / "books").mkdir()
    for n, text in enumerate(result["prose"]):
        (tmp_path / f"books/{n:02d}.txt").write_text(text, encoding="utf-8")
    with gzip.open(tmp_path / "code.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in [None, *result["code"]])
    table = pa.table({"content": [None, *result["noise"]], "stars": [0, 1]})
    pq.write_table(table, tmp_path / "noise.parquet")
    return result


DOMAINS = ["prose=books/*.txt", "code=code.jsonl.gz", "noise:content=noise.parquet"]


@pytest.mark.slow
def test_the_example_takes_text_files_to_a_trainer(capsys, texts):
    module = runpy.run_path(str(script("from_text")))
    module["main"]([*DOMAINS, "--method", "scale-free-pike", "--steps", "60"])
    pattern = r"^(\w+): loss ([\d.]+), share ([\d.]+)$"
    shown = re.findall(pattern, capsys.readouterr().out, re.M)
    assert [name for name, *_ in shown] == ["prose", "code", "noise"]
    losses, shares = ([float(row[n]) for row in shown] for n in (1, 2))
    # Untrained: ln 2000 = 7.6. Two symbols in turn are learnt at once, and hand over their rows.
    assert losses[2] < 1 < losses[1] < 7 > losses[0]
    assert sum(shares) == pytest.approx(1, abs=0.002)
    assert shares[2] < 1 / 3
    # Its tokenizer and model train again, with what `pike advise` chose, in rows of another length.
    rule = {"rule": "fixed", "weights_by_domain": {"prose": 0.5, "code": 0.3, "noise": 0.2}}
    advice = [{"rule": rule, "shares": rule["weights_by_domain"]}]
    Path("advice.json").write_text(json.dumps(advice), encoding="utf-8")
    own = ["--tokenizer", "trained", "--model", "trained", "--length", "32", "--steps", "2"]
    for chosen in (["--advice", "advice.json"], ["--shares", "prose=5", "code=3", "noise=2"]):
        module["main"]([*DOMAINS, *own, *chosen, "--out", "again"])
        shown = re.findall(pattern, capsys.readouterr().out, re.M)
        assert [share for *_, share in shown] == ["0.500", "0.300", "0.200"]
    Path("advice.json").write_text(json.dumps(advice * 2), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"advice\.json is for the domains prose, code, noise or"):
        module["main"]([*DOMAINS, *own, "--advice", "advice.json"])


def test_the_example_packs_whole_texts_and_holds_a_tenth_out(texts):
    module = runpy.run_path(str(script("from_text")))
    given = module["options"]().parse_args([*DOMAINS, "--length", "8"])
    for argument in DOMAINS:
        domain = module["Domain"](argument, given)
        domain.tokenizer = Letters()
        text = "".join(f"{one}\0" for one in texts[domain.name])
        rows = ["".join(map(chr, row["input_ids"].tolist())) for row in domain.rows()]
        assert rows == [text[n : n + 8] for n in range(0, len(text) - 7, 8)]
        kept, held_out = ([*map(str, part)] for part in (domain, domain.held_out()))
        assert held_out == [*map(str, domain.rows())][9:1000:10]
        assert len(kept) + len(held_out) == len(rows)
        # A stream begins again.
        assert [*map(str, domain)] == kept
    zst = pa.CompressedOutputStream("c.json.zst", "zstd")
    with zst as file:
        file.write(b'{"text": "one"}\n\n{"text": "two"}\n')
    assert [*module["documents"]("c.json.*", "text")] == ["one", "two"]


class Letters:
    """A tokenizer: a token for each character."""

    eos_token_id = 0

    def __call__(self, text, **_):
        return {"input_ids": [*map(ord, text)]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a=none/*.txt"], r"no file fits none/\*\.txt"),
        (["a=noise.parquet"], r"noise\.parquet: no field 'text' but content, stars: write DOMAIN:"),
        (
            ["a:body=code.jsonl.gz"],
            r"code\.jsonl\.gz: no field 'body' but text: write DOMAIN:FIELD",
        ),
        (["a=broken.jsonl"], r"broken\.jsonl, line 2 is no JSON: Expecting value"),
        (["a=code.jsonl.gz", "--shares", "a=1,b=1"], "--shares a=1 b=2"),
        (["a=noise.bin"], r"noise\.bin: give \.txt, \.jsonl"),
        (["a=books/*.txt", "a=code.jsonl.gz"], "a domain is named twice"),
        (["a=books/*.txt", "--length", "999999"], "a: fewer than ten rows of 999999 tokens"),
    ],
)
def test_the_example_says_what_it_does_not_take(texts, words, message):
    Path("noise.bin").write_bytes(b"0")
    Path("broken.jsonl").write_text('{"text": "one"}\n{"text": one}\n')
    with pytest.raises(SystemExit, match=message):
        runpy.run_path(str(script("from_text")))["main"](words)


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
