"""A corpus's rows for other trainers."""

import numpy as np
import pytest
import torch

from pike_mixing.errors import InputError
from pipeline.data.rows_for_trainers import open_packed_rows
from pipeline.data.shards import Corpus


def test_rows_are_those_that_a_run_reads(make_corpus, tmp_path):
    # Eleven tokens are three rows of 3 + 1, which share their ends; one token is left over.
    rows = open_packed_rows(make_corpus(tmp_path / "hand", range(2, 13)), "train", 3)
    whole = [[2, 3, 4, 5], [5, 6, 7, 8], [8, 9, 10, 11]]
    assert [row["input_ids"].tolist() for row in rows] == whole
    assert [rows[n]["labels"].tolist() for n in (0, 1, -1)] == whole
    assert next(iter(torch.utils.data.DataLoader(rows, 3)))["labels"].tolist() == whole


@pytest.mark.parametrize(
    ("split", "length", "said"),
    [
        ("test", 3, "one of train, validation"),
        ("train", 11, "a row takes"),
        ("train", 0, "targets_per_row"),
    ],
)
def test_what_has_no_rows_is_told(make_corpus, tmp_path, split, length, said):
    with pytest.raises(InputError, match=said):
        open_packed_rows(make_corpus(tmp_path / "hand", range(2, 13)), split, length)


def test_a_plain_trainer_reads_the_same_rows(make_corpus, tmp_path):
    pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")
    folder = make_corpus(tmp_path / "hand", [n * 7 % 23 for n in range(200)], vocabulary=24)
    corpus, seen = Corpus.open(folder, "train"), []

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(24, 24)

        def forward(self, input_ids, labels):
            seen.extend(input_ids.numpy())
            logits = self.embedding(input_ids)
            return {"loss": torch.nn.functional.cross_entropy(logits.mT, labels)}

    options = {"output_dir": str(tmp_path), "use_cpu": True, "report_to": [], "disable_tqdm": True}
    options |= {"per_device_train_batch_size": 4, "num_train_epochs": 1, "save_strategy": "no"}
    options |= {"train_sampling_strategy": "sequential"}
    args = transformers.TrainingArguments(**options)
    transformers.Trainer(Model(), args, train_dataset=open_packed_rows(folder, "train", 8)).train()
    assert np.array_equal(seen, corpus.read_rows(np.arange(corpus.row_count(8)), 8))
