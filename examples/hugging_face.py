"""ADO in a loop over Hugging Face `datasets`: how many rows of each fill the next batch.

    python examples/hugging_face.py

The three data sets are built here, without a network; `datasets.load_dataset` gives the same kind
of object. ADO asks for nothing but the losses of the batch, so the loop needs no further pass.

Shapes: K data sets, B rows of a batch, L characters of a row, V characters in all.
"""

import itertools
import random
import tempfile

import numpy as np
import torch
from datasets import Dataset, disable_progress_bars
from torch import nn
from torch.nn import functional

from pike_mixing import ADO, Signals

LENGTH = 32
CHARACTERS = " abcdefghijklmnopqrstuvwxyz0123456789+="


def train(model, optimizer, datasets, steps, b):
    """Trains on batches that ADO fills; returns the counts of every step."""
    method = ADO(first=100, every=50, ignore=20, stride=5, window=31, min_log_irreducible=-2)
    state = method.init(tuple(datasets), seed=0)
    streams = [rows(dataset) for dataset in datasets.values()]
    history = []
    for step in range(steps):
        count_K = method.allocate(state, step, b)
        batch = [
            next(stream)["tokens"]
            for stream, count in zip(streams, count_K.tolist(), strict=True)
            for _ in range(count)
        ]
        loss_B = row_losses(model, torch.stack(batch))
        optimizer.zero_grad()
        loss_B.mean().backward()
        optimizer.step()
        # A data set without rows has the mean of nothing, NaN: it was not measured.
        loss_K = [of_rows.mean().item() for of_rows in loss_B.detach().split(count_K.tolist())]
        signals = Signals(step, b, count_K=count_K, loss_K=np.array(loss_K))
        state = method.observe(state, signals)
        history.append(count_K)
    return history


def rows(dataset):
    """The rows of a data set, for ever, in a new order each time round."""
    for epoch in itertools.count():
        yield from dataset.shuffle(seed=epoch, keep_in_memory=True)


def row_losses(model, tokens_BxL):
    """Mean loss of each row, in nats per character."""
    logits_BxLxV = model(tokens_BxL[:, :-1])
    return functional.cross_entropy(
        logits_BxLxV.transpose(1, 2), tokens_BxL[:, 1:], reduction="none"
    ).mean(dim=1)


class TinyModel(nn.Module):
    """Characters in, logits of the next ones out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(CHARACTERS), 32)
        self.recurrent = nn.GRU(32, 64, batch_first=True)
        self.out = nn.Linear(64, len(CHARACTERS))

    def forward(self, tokens_BxL):
        """Logits of the character behind each."""
        return self.out(self.recurrent(self.embedding(tokens_BxL))[0])


def sums(seed: int):
    """Sums of small numbers, such as `3+14=17`."""
    draw = random.Random(seed)
    for _ in range(400):
        first, second = draw.randrange(20), draw.randrange(20)
        yield {"text": f"{first}+{second}={first + second} " * 5}


def built(folder):
    """Three data sets of rows of equal length, as character ids."""
    draw = random.Random(0)
    words = ["the", "cat", "dog", "sees", "a", "small", "red", "house"]
    sentences = [" ".join(draw.choices(words, k=12)) for _ in range(400)]
    letters = ["".join(draw.choices(CHARACTERS, k=LENGTH)) for _ in range(400)]
    texts = {
        "sentences": Dataset.from_dict({"text": sentences}),
        "sums": Dataset.from_generator(sums, gen_kwargs={"seed": 0}, cache_dir=folder),
        "letters": Dataset.from_dict({"text": letters}),
    }

    def tokenized(row):
        return {"tokens": [CHARACTERS.index(c) for c in row["text"][:LENGTH].ljust(LENGTH)]}

    return {
        name: text.map(tokenized, remove_columns="text", keep_in_memory=True).with_format("torch")
        for name, text in texts.items()
    }


def main() -> None:
    """Trains and prints the counts."""
    disable_progress_bars()
    torch.manual_seed(0)
    model = TinyModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    with tempfile.TemporaryDirectory() as folder:
        datasets = built(folder)
        history = train(model, optimizer, datasets, steps=250, b=24)
    print("step ", *(f"{name:>9}" for name in datasets))
    for step in range(0, len(history), 25):
        print(f"{step:5}", *(f"{count:9}" for count in history[step].tolist()))


if __name__ == "__main__":
    main()
