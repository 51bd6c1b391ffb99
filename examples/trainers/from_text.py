"""From text files to a Trainer of transformers that mixes them.

    python examples/trainers/from_text.py \
        tickets=tickets.jsonl.gz code:content='code/*.parquet' web='web/**/*.txt' \
        --tokenizer my/tokenizer --model my/config --length 2048 --steps 10000 --advice advice.json

Each argument is a domain and a pattern of its files: JSON lines or text, plain or as .gz or .zst,
or Parquet. `code:content=` names the field that holds the text, which is `text` elsewhere;
`code:content.text=` is the field `text` within `content`. Without `--tokenizer` and `--model`,
small ones are made here. `--advice` takes the method that `pike advise --format json` chose; if you
know how much each domain counts, give `--shares`.

Files are streams, read in the order of their names, or in random order with `--shuffle`. They are
tokenized while the model trains: memory holds one document of each domain, and those of
`--shuffle`. If the accelerator waits for that, write the rows of `pack` to a data set once.
"""

import argparse
import contextlib
import glob
import gzip
import io
import itertools
import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

from pike_mixing import Fixed, make
from pike_mixing.transformers import attach

PIECE = 1_000_000
"""A longer text file is cut into documents of at most so many characters, at white space."""
HELD_OUT = 1000
"""Of so many first rows of a domain each tenth is held out."""


def options() -> argparse.ArgumentParser:
    """What the command line takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("domains", nargs="+", metavar="DOMAIN[:FIELD]=FILES")
    parser.add_argument("--length", type=int, default=64, help="tokens of a row")
    parser.add_argument("--steps", type=int, default=60, help="optimizer steps")
    parser.add_argument("--tokenizer", help="name or folder (default: a small one is trained)")
    parser.add_argument("--model", help="name or folder of a configuration (default: a small one)")
    shuffle = "read files in random order, documents at random from N of a domain in memory"
    parser.add_argument("--shuffle", type=int, default=0, metavar="N", help=shuffle)
    parser.add_argument("--out", default="trained", help="folder for checkpoints and the model")
    method = parser.add_mutually_exclusive_group()
    method.add_argument("--method", default="mix", help="a name of `pike-mixing methods`")
    method.add_argument("--advice", help="a file of `pike advise --format json`")
    method.add_argument("--shares", nargs="+", metavar="DOMAIN=SHARE", help="that you know")
    return parser


def documents(pattern: str, field: str, shuffle: int = 0) -> Iterator[str]:
    """The texts of all files that fit a pattern."""
    paths = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - it may be absolute
    if not paths:
        raise SystemExit(f"no file fits {pattern}")
    if not shuffle:
        yield from _texts(paths, field)
        return
    draw, waiting = random.Random(0), []
    draw.shuffle(paths)
    for text in _texts(paths, field):
        waiting.append(text)
        if len(waiting) > shuffle:
            place = draw.randrange(len(waiting))
            waiting[place], waiting[-1] = waiting[-1], waiting[place]
            yield waiting.pop()
    draw.shuffle(waiting)
    yield from waiting


def _texts(paths: Iterable[str], field: str) -> Iterator[str]:
    """The texts of files, one after another."""
    for path in paths:
        kind = Path(path.removesuffix(".gz").removesuffix(".zst")).suffix
        if kind == ".parquet":
            with pq.ParquetFile(path) as table:
                names = table.schema_arrow.names
                for batch in table.iter_batches(batch_size=64, columns=[field]):
                    texts = (_text(record, field, names, path) for record in batch.to_pylist())
                    yield from filter(None, texts)
        elif kind in (".json", ".jsonl"):
            with _open(path) as file:
                for number, line in enumerate(file, 1):
                    record = _record(line, f"{path}, line {number}") if line.strip() else None
                    if text := _text(record, field, record or (), path):
                        yield text
        elif kind == ".txt":
            with _open(path) as file:
                yield from pieces(file)
        else:
            raise SystemExit(f"{path}: give .txt, .jsonl, .json (also .gz, .zst) or .parquet")


def pieces(file: Any) -> Iterator[str]:
    """A text file, whole or cut: memory holds PIECE characters."""
    text = ""
    while text := text + file.read(PIECE + 1 - len(text)):
        end = len(text)
        if end > PIECE:
            end = max(text.rfind(sign, 0, PIECE) for sign in " \n") + 1 or PIECE
        yield text[:end]
        text = text[end:]


def _record(line: str, place: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise SystemExit(f"{place} is no JSON: {error}") from None
    if not isinstance(record, dict | None):
        raise SystemExit(f"{place} is no JSON object with a text: {line:.80}")
    return record


def _text(record: dict[str, Any] | None, field: str, names: Iterable[str], path: str) -> str | None:
    try:
        text = text_of(record, field)
    except KeyError:
        known = ", ".join(names)
        raise SystemExit(
            f"{path}: no field {field!r} but {known}: write DOMAIN:FIELD={path}"
        ) from None
    if text is not None and not isinstance(text, str):
        raise SystemExit(
            f"{path}: {field!r} is no text but {text!r:.80}: write DOMAIN:FIELD={path}"
        )
    return text


def text_of(record: dict[str, Any] | None, field: str) -> Any:
    """The text in a field; `content.text` names a field of this name, or `text` in `content`."""
    if record is None:
        return None
    if field in record:
        return record[field]
    for end in (place for place, sign in enumerate(field) if sign == "."):
        within = record.get(field[:end], "")
        if within is None or isinstance(within, dict):
            with contextlib.suppress(KeyError):
                return text_of(within, field[end + 1 :])
    raise KeyError(field)


def _open(path: str) -> Any:
    if path.endswith(".zst"):
        return io.TextIOWrapper(pa.input_stream(path, compression="zstd"), encoding="utf-8-sig")
    return (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8-sig")


def pack(texts: Iterable[str], tokenizer: Any, length: int) -> Iterator[dict[str, torch.Tensor]]:
    """Rows of `length` tokens: documents one after another, an end token after each."""
    tokens: list[int] = []
    for text in texts:
        tokens += tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        tokens.append(tokenizer.eos_token_id)
        whole = len(tokens) // length * length
        for start in range(0, whole, length):
            row = torch.tensor(tokens[start : start + length])
            yield {"input_ids": row, "labels": row}
        tokens = tokens[whole:]


class Domain:
    """The rows of a domain: a stream that begins again whenever it is read."""

    def __init__(self, given: str, options: argparse.Namespace) -> None:
        name, _, self.files = given.partition("=")
        self.name, _, field = name.partition(":")
        self.field, self.shuffle = field or "text", options.shuffle
        self.length, self.tokenizer = options.length, None

    def texts(self) -> Iterator[str]:
        return documents(self.files, self.field, self.shuffle)

    def rows(self) -> Iterator[dict[str, torch.Tensor]]:
        return pack(self.texts(), self.tokenizer, self.length)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        """The rows to train on."""
        for number, row in enumerate(self.rows()):
            if number >= HELD_OUT or number % 10 != 9:
                yield row

    def held_out(self) -> list[dict[str, torch.Tensor]]:
        """The others."""
        if not (rows := [*itertools.islice(self.rows(), 9, HELD_OUT, 10)]):
            raise SystemExit(f"{self.name}: fewer than ten rows of {self.length} tokens: add text")
        return rows


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


def new_model(given: str | None, tokenizer: Any, length: int) -> Any:
    """A model of a configuration, or a GPT-2 of two layers, with new weights."""
    torch.manual_seed(0)
    own = {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id}
    own["bos_token_id"] = tokenizer.bos_token_id
    small = {"n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": length}
    config = AutoConfig.from_pretrained(given, **own) if given else GPT2Config(**own, **small)
    return AutoModelForCausalLM.from_config(config)


def method_of(options: argparse.Namespace, domains: Iterable[str]) -> Any:
    """The rule that chooses how many rows of each domain a step has."""
    if options.shares:
        given = (share.partition("=") for share in options.shares)
        try:
            shares = {name: float(share) for name, _, share in given}
        except ValueError:
            raise SystemExit("--shares: give each domain a number: --shares a=1 b=2") from None
        return Fixed(weights_by_domain=shares)
    if not options.advice:
        return make(options.method)
    advice = json.loads(Path(options.advice).read_text(encoding="utf-8"))
    if len(advice) != 1 or advice[0]["shares"].keys() != {*domains}:
        known = " or ".join(", ".join(one["shares"]) for one in advice)
        raise SystemExit(f"{options.advice} is for the domains {known}: give these, of one model")
    rule = advice[0]["rule"]
    return make(rule.pop("rule"), **rule)


def main(arguments: list[str] | None = None) -> None:
    """Trains, and prints each domain's held-out loss and share."""
    given = options().parse_args(arguments)
    domains = {one.name: one for one in (Domain(text, given) for text in given.domains)}
    if len(domains) < len(given.domains):
        raise SystemExit("a domain is named twice: give it one pattern of files, such as '*.jsonl'")
    if given.tokenizer:
        tokenizer = AutoTokenizer.from_pretrained(given.tokenizer)
        if tokenizer.eos_token_id is None:
            raise SystemExit(f"{given.tokenizer} has no eos_token, which ends each document")
    else:
        first = (itertools.islice(one.texts(), 1000) for one in domains.values())
        tokenizer = small_tokenizer(itertools.chain.from_iterable(first))
    for one in domains.values():
        one.tokenizer = tokenizer
    held_out = {name: one.held_out() for name, one in domains.items()}
    args = TrainingArguments(  # Yours: rows of a step, learning rate and its schedule, precision.
        output_dir=given.out,
        max_steps=given.steps,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        learning_rate=3e-3,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(
        new_model(given.model, tokenizer, given.length),
        args,
        processing_class=tokenizer,
        data_collator=default_data_collator,
        eval_dataset=held_out,
    )
    mixing = attach(trainer, method_of(given, domains), domains)
    trainer.train()
    trainer.save_model()
    losses = trainer.evaluate()
    for name, share in mixing.weights.items():
        print(f"{name}: loss {losses[f'eval_{name}_loss']:.3f}, share {share:.3f}")


if __name__ == "__main__":
    main()
