import pytest

from pike_mixing.errors import InputError
from pipeline.model import hf_card
from pipeline.training import train

FACTS = dict.fromkeys(
    ("name", "vocabulary", "pieces", "eos", "tokenizer_sha256", "transformers", "difference"), 1
)


@pytest.mark.slow
def test_the_card_counts_rows_of_records_that_are_whole(make_run, corpora):
    run = make_run().parent
    train.pretrain(run / "run.json", corpora, device="cpu", threads=1)
    assert "languages/tiny/any/seed0 after 3 steps" in hf_card.text(run, 3, {**FACTS, "texts": 1})
    weights = (run / "weights.parquet").read_bytes()
    (run / "weights.parquet").write_bytes(weights[:-9])
    with pytest.raises(InputError, match=r"weights\.parquet has .* bytes, the manifest says .*"):
        hf_card.text(run, 3, {**FACTS, "texts": 1})
