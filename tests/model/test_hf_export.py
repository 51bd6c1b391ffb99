"""A finished run, exported and loaded as others will load it."""

import shutil

import edits
import pytest
import torch

from pike_mixing.errors import InputError
from pipeline.__main__ import main
from pipeline.data import tokenizer
from pipeline.data.tokenizer import Tokenizer
from pipeline.model import checkpoint
from pipeline.runtime import atomic_files

tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")
pytest.importorskip("google.protobuf")
export = pytest.importorskip("pipeline.model.export")
hf_folder = pytest.importorskip("pipeline.model.hf_folder")


@pytest.fixture(scope="module")
def exported(piked, tmp_path_factory):
    out = tmp_path_factory.mktemp("models") / "tiny"
    said = export.export_run(piked, out=out)
    assert f"{out}: " in said
    assert "parameters after 6 steps, checked by transformers" in said
    return out


def test_transformers_loads_the_model_and_computes_the_same(piked, exported):
    ours = checkpoint.load_model(piked / "checkpoints" / "step6")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(exported).eval()
    tokens = torch.randint(ours.vocabulary, (3, 8), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(theirs(tokens).logits, ours(tokens), rtol=1e-4, atol=1e-4)
        longer = theirs.generate(tokens[:1, :3], max_new_tokens=4, do_sample=False)
    assert longer.shape[1] <= 7


def test_transformers_loads_the_tokenizer_and_cuts_the_same(exported, corpora):
    ours = Tokenizer(corpora.parent / "symbols.model")
    theirs = transformers.AutoTokenizer.from_pretrained(exported)
    text = "\u4e00\u4e01 \u5003\u4e02x"
    assert theirs(text)["input_ids"] == ours.encode([text])[0].tolist()
    assert (theirs.eos_token_id, theirs.unk_token_id) == (ours.eos, ours.unknown)
    assert (exported / "spiece.model").read_bytes() == ours.path.read_bytes()


def test_an_exported_tokenizer_json_adds_no_piece_to_a_text(tmp_path):
    fast = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0, "</s>": 1, "row": 2}, "?"))
    fast.add_special_tokens(["</s>"])
    ends = tokenizers.processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    fast.post_processor = ends
    fast.enable_truncation(1)
    fast.enable_padding(length=4)
    fast.save(str(tmp_path / "tokenizer.json"))
    values = {"kind": "file", "path": str(tmp_path / "tokenizer.json"), "end": "</s>"}
    atomic_files.write_json(tmp_path / "t.json", values)
    tokenizer.build_tokenizer(tmp_path / "t.json", [], tmp_path / "tok.model")
    (tmp_path / "out").mkdir()
    hf_folder._write_tokenizer_and_return_eos(
        tmp_path / "out", Tokenizer(tmp_path / "tok.model"), 64
    )
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert theirs(["row", "row"])["input_ids"] == [[2], [2]]
    hf_folder._compare_tokenizers_and_count_texts(
        tmp_path / "out", Tokenizer(tmp_path / "tok.model")
    )


def test_the_export_finds_one_text_that_is_cut_otherwise(corpora, tmp_path, monkeypatch):
    ours, name = Tokenizer(corpora.parent / "symbols.model"), "_normalizer_from_sentencepiece"
    steps = getattr(hf_folder, name)
    assert (
        hf_folder._compare_tokenizers_and_count_texts(tokenizer_of(ours, tmp_path / "right"), ours)
        > 100
    )
    strip = tokenizers.normalizers.Replace("\u3000", "")
    both = tokenizers.normalizers.Sequence
    monkeypatch.setattr(hf_folder, name, lambda spec: both([strip, steps(spec)]))
    with pytest.raises(InputError, match=r"tokenizers cuts 1 of \d+ texts otherwise than"):
        hf_folder._compare_tokenizers_and_count_texts(tokenizer_of(ours, tmp_path / "wrong"), ours)


def tokenizer_of(ours, folder):
    folder.mkdir()
    hf_folder._write_tokenizer_and_return_eos(folder, ours, 64)
    return folder


def test_the_card_says_where_the_model_comes_from(piked, exported):
    card = (exported / "README.md").read_text(encoding="utf-8")
    manifest = atomic_files.read_json(piked / atomic_files.MANIFEST)
    assert card.startswith("---\nlibrary_name: transformers\n")
    assert "# languages/tiny/any/seed0 after 6 steps" in card
    assert f"SHA-256 {manifest['weights_sha256']}" in card
    assert "| easy | CC0-1.0 | synthetic-1 settings" in card
    # 6 steps of 6 rows of 8 tokens, between two domains.
    read = [
        int(line.split("|")[-2].replace(",", "")) for line in card.splitlines() if "CC0" in line
    ]
    assert sum(read) == 6 * 6 * 8
    assert "zeta1 = 0.5" in card


def test_an_earlier_checkpoint_is_exported_by_its_step(piked, tmp_path, capsys):
    assert main(["export", str(piked), "--step", "3", "--out", str(tmp_path / "at3")]) == 0
    assert "parameters after 3 steps" in capsys.readouterr().out
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "at3")
    ours = checkpoint.load_model(piked / "checkpoints" / "step3")
    assert torch.equal(theirs.model.embed_tokens.weight, ours.embedding.weight)


def test_what_cannot_be_exported_is_said_and_nothing_appears(piked, exported, tmp_path):
    for given, out, step, told in (
        (piked, tmp_path / "out", 5, "keeps no checkpoint of step 5: --step takes one of 0, 3, 6"),
        (piked, exported, None, r"holds README\.md, and no \.made-by there"),
        (piked, piked, None, "holds or lies in the input"),
        (tmp_path, tmp_path / "out", None, r"manifest\.json does not exist"),
    ):
        with pytest.raises(InputError, match=told):
            export.export_run(given, out=out, step=step)
    assert list(tmp_path.iterdir()) == []


def test_the_card_counts_rows_of_records_that_are_whole(piked, tmp_path):
    # Beside it, so that the corpora lie where its manifest says.
    own = shutil.copytree(piked, piked.with_name("harmed"))
    edits.cut("weights.parquet", -9)(own)
    with pytest.raises(InputError, match=r"weights\.parquet has .* bytes, the manifest says .*"):
        export.export_run(own, out=tmp_path / "out", step=3)


def test_a_tokenizer_that_was_replaced_is_not_exported(piked, corpora, tmp_path):
    moved = tmp_path / "data"
    shutil.copytree(corpora.parent, moved)
    manifest = atomic_files.read_json(piked / atomic_files.MANIFEST)
    shutil.copytree(piked, tmp_path / "run")
    inputs = {f"../data/corpora/{d}/manifest.json": "" for d in manifest["domains"]}
    edits.values(atomic_files.MANIFEST, {"inputs": inputs})(tmp_path / "run")
    (moved / "symbols.model").write_bytes(b"another")
    with pytest.raises(InputError, match=r"symbols\.model any more: put the file of SHA-256"):
        export.export_run(tmp_path / "run", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
