"""From text files to a Trainer of transformers that mixes them.

    python examples/trainers/from_text.py prose='books/*.txt' code=code.jsonl.gz web=web.parquet

Each argument is a domain and a pattern of its files: text, JSON lines or Parquet with a field
`text`. Tokenizer and model are small ones, made here without a download: with your own, replace
`small_tokenizer` by `AutoTokenizer.from_pretrained(...)` and `small_model` by your model.
"""

import glob
import gzip
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

from pike_mixing import ScaleFreePiKE
from pike_mixing.transformers import attach

LENGTH = 64
"""Tokens of a row."""
STEPS = 60


def documents(pattern: str) -> Iterator[str]:
    """The texts of all files that fit a pattern."""
    paths = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - it may be absolute
    if not paths:
        raise SystemExit(f"no file fits {pattern}")
    for path in paths:
        if path.endswith(".parquet"):
            for batch in pq.ParquetFile(path).iter_batches(columns=["text"]):
                yield from batch["text"].to_pylist()
        elif path.endswith((".jsonl", ".jsonl.gz")):
            with (gzip.open if path.endswith(".gz") else open)(
                path, "rt", encoding="utf-8"
            ) as file:
                yield from (json.loads(line)["text"] for line in file)
        else:
            yield Path(path).read_text(encoding="utf-8")


def pack(texts: Iterable[str], tokenizer: Any) -> list[dict[str, torch.Tensor]]:
    """Rows of LENGTH tokens: documents one after another, an end token behind each."""
    ids = [i for text in texts for i in [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]]
    whole = len(ids) // LENGTH * LENGTH
    return [{"input_ids": row, "labels": row} for row in torch.tensor(ids[:whole]).split(LENGTH)]


def small_tokenizer(texts: Iterable[str]) -> Any:
    """A byte-level BPE of 2,000 pieces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=["</s>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


def small_model(tokenizer: Any) -> Any:
    """A GPT-2 of two layers."""
    torch.manual_seed(0)
    shape = {"n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": LENGTH}
    end = tokenizer.eos_token_id
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=len(tokenizer), bos_token_id=end, eos_token_id=end, **shape)
    )


def main(arguments: list[str]) -> None:
    """Trains, and prints each domain's held-out loss and share."""
    texts = {name: [*documents(files)] for name, _, files in (a.partition("=") for a in arguments)}
    tokenizer = small_tokenizer(text for each in texts.values() for text in each)
    rows = {name: pack(each, tokenizer) for name, each in texts.items()}
    # The last tenth of each domain is held out.
    training = {name: each[: -(len(each) // 10) or None] for name, each in rows.items()}
    held_out = {name: each[len(training[name]) :] or each[-1:] for name, each in rows.items()}
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            max_steps=STEPS,
            per_device_train_batch_size=8,
            gradient_accumulation_steps=2,
            learning_rate=3e-3,
            report_to=[],
            disable_tqdm=True,
        )
        trainer = Trainer(
            small_model(tokenizer),
            args,
            data_collator=default_data_collator,
            eval_dataset=held_out,
        )
        # Shares that you know instead: Fixed(weights_by_domain={"prose": 2, "code": 1, "web": 1}).
        mixing = attach(trainer, ScaleFreePiKE(), training)
        trainer.train()
        losses = trainer.evaluate()
    for name, share in mixing.weights.items():
        print(f"{name}: loss {losses[f'eval_{name}_loss']:.3f}, share {share:.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
