"""How each trainer is told of a mixture: one entry of `FORMATS` for each.

A file is a sequence of parts: a text, or `EachDomain`, whose item is written for each domain, or
`EachStage`, whose parts are written for each stage. The explorer's page writes the same parts in
JavaScript. Fields of an item:

    {weight} {rows} {name} {path}    share, whole rows, name and path as they are
    {name:j} {path:j} {field:j}      as a JSON string, which YAML and Python read too
    {path:s}                         as a word of a shell

Parsers were read in the trainers' own code (August 2026, NeMo and levanter: September 2025).
"""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class DomainSource:
    """One domain of a stage."""

    name: str
    path: str
    share: float
    rows: int = 0
    """Of a run whose rows are counted."""
    field: str = "text"
    """Of a record, which holds the text."""


@dataclass(frozen=True)
class Stage:
    """Shares from one step on."""

    start: int
    """First step."""
    sources: tuple[DomainSource, ...]


@dataclass(frozen=True)
class EachDomain:
    """A text for each domain, and what stands between two of them."""

    item: str
    between: str = ""


@dataclass(frozen=True)
class EachStage:
    """Parts for each stage; {start} is its first step."""

    parts: tuple[str | EachDomain, ...]


Part = str | EachDomain | EachStage


@dataclass(frozen=True)
class TrainerFormat:
    """One trainer's files."""

    trainer: str
    counts: str
    """What a share is a share of."""
    files: dict[str, tuple[Part, ...]]
    tested_with: str
    """The package that reads the files in a test; "schema": compared with documented fields."""
    stages: Literal["to a row", "by chance", "one file", "not run"]
    """How two stages of a schedule kept our counts in a test: the trainer's code counts, or draws;
    or it reads a schedule itself."""
    staged: dict[str, tuple[Part, ...]] | None = None
    """Files of a schedule, where the trainer knows one."""
    needs_rows: bool = False
    has_repetition: bool = False
    """Whether {repetition}, the cap on epochs, is in it."""
    has_fields: bool = False
    """Whether {field:j}, the field of a record that holds the text, is in it."""
    forbidden: str = ""
    """Characters that its parser would take for something else, in paths or names."""
    reads: str | None = None
    """Endings of the text files that it reads, a regular expression; None: not looked at."""
    wants: str = ""
    """What a path names, where text files are refused."""
    notes: tuple[str, ...] = ()
    next_step: str | None = None
    """What to write into a training script, where the notes do not have it."""

    @property
    def refusals_text(self) -> str:
        """What is refused, except ramps, weights of losses and rules that follow signals."""
        names = {" ": "space", "\t": "tab", "\n": "line break"}
        marks = [names.get(mark, f"`{mark}`") for mark in self.forbidden]
        where = "paths and names" if self.has_unquoted_names else "paths"
        told = [f"in {where}: {', '.join(marks)}"] if marks else []
        told += ["text files"] * (self.reads in ("", "npy"))
        told += ["files of endings that it does not read"] * (self.reads not in (None, "", "npy"))
        return (
            "; ".join(told + ["shares without `--rows`"] * self.needs_rows)
            or "only what is refused for every trainer (below)"
        )

    @property
    def has_unquoted_names(self) -> bool:
        """Whether its parser sees domains' names as they are."""
        items = [p.item for file in self.files.values() for p in file if isinstance(p, EachDomain)]
        return any("{name}" in item for item in items)


def _levanter_parts(weights: tuple[Part, ...]) -> tuple[Part, ...]:
    source = "    {name:j}:\n      source: {{type: url, train_urls: [{path:j}]}}\n"
    return ("data:\n  components:\n", EachDomain(source), "  train_weights:\n", *weights)


PACKED = '''\
from torchtitan.components.data import (
    ConcatThenSplitPackingConfig,
    DatasetMixConfig,
    IndexedJsonlSource,
    SingleDatasetConfig,
    WeightedDataset,
)
from torchtitan.hf_datasets.text_datasets import TextProcessor


def packed(pattern):
    """Rows of one length: mixed after packing, shares count tokens."""
    rows = SingleDatasetConfig(
        source=IndexedJsonlSource.Config(patterns=(pattern,)),
        processor=TextProcessor.Config(),
        post_filters=(lambda sample: sample is not None,),
    )
    return ConcatThenSplitPackingConfig(dataset=rows)


'''

MIXTURE_HEAD, MIXTURE_BODY = (
    Path(__file__)
    .with_name("mixture_module.txt")
    .read_text(encoding="utf-8")
    .replace("{", "{{")
    .replace("}", "}}")
    .split("paths = {{}}\nfields = {{}}\nshares = {{}}\n")
)
"""The module for `datasets`, before and behind what is said of the domains."""
TEXT_FILE = r"\.((?:json|jsonl|ndjson|csv|tsv|txt|parquet|arrow)(?:\.(?:gz|zst|bz2|xz|zip))?)$"
"""How the name of a file of text ends, or a pattern of such files, in any case."""
PLAIN = r"(json|jsonl|csv|txt|parquet|arrow)"
"""Endings that loaders of `datasets` know."""

FORMATS = {
    "transformers": TrainerFormat(
        "Hugging Face's Trainer (datasets.interleave_datasets)",
        "tokens, where `mixture` is given a tokenizer and packs; else rows as they are stored",
        {
            "mixture.py": (
                MIXTURE_HEAD + "paths = {{\n", EachDomain("    {name:j}: {path:j},\n"),
                "}}\nfields = {{\n", EachDomain("    {name:j}: {field:j},\n"),
                "}}\nshares = {{\n", EachDomain("    {name:j}: {weight},\n"),
                "}}\n" + MIXTURE_BODY,
            )
        },
        "datasets 5.2.0",
        "by chance",
        has_fields=True,
        reads=PLAIN + r"|(json|jsonl|csv|txt)\.(gz|zst)",
        wants="JSON lines, CSV or text, plain or as .gz or .zst, or .parquet or .arrow",
        notes=(
            "give `mixture` your tokenizer: it packs each domain into rows of one length",
            "mixture.py needs the package datasets, and zstandard for .zst: pip install datasets "
            "zstandard",
            "a .txt file is one document of up to 1,000,000 characters; if it holds many, set "
            "DOCUMENT",
            "documents come in the order of the files; `mixture(..., shuffle=1000)` mixes them",
            "small domains are read again until the largest has ended",
        ),
        next_step="`from mixture import mixture` in your training script, in the same folder; set "
        "max_steps there, since nobody knows the number of rows",
    ),
    "megatron-lm": TrainerFormat(
        "Megatron-LM",
        "sequences of seq_length tokens",
        {"blend.txt": (EachDomain("{weight} {path}", "\n"), "\n")},
        "megatron-core 0.16.1",
        "to a row",
        forbidden=" \t\n",
        notes=("give it as --data-args-path blend.txt",),
        reads="",
        wants="prefixes of the .bin and .idx files that its preprocess_data.py wrote",
    ),
    "megatron-energon": TrainerFormat(
        "Megatron-Energon",
        "samples, before packing",
        {
            "metadataset.yaml": (
                "__module__: megatron.energon\n__class__: MetadatasetV2\n"
                "splits:\n  train:\n    blend:\n",
                EachDomain("      - weight: {weight}\n        path: {path:j}\n"
                     "        subflavors: {{domain: {name:j}}}\n"),
            )
        },
        "megatron-energon 5.1.1",
        "by chance",
        notes=("each sample carries its domain as a subflavor",),
        reads="",
        wants="folders that `energon prepare` made",
    ),
    "olmo-core": TrainerFormat(
        "OLMo-core",
        "tokens",
        {
            "source_mixture.yaml": (
                "sources:\n",
                EachDomain("  - source_name: {name:j}\n    target_ratio: {weight}\n"
                     "    paths: [{path:j}]\n    max_repetition_ratio: {repetition}\n"),
            )
        },
        "schema; by hand ai2-olmo-core 3.0.0",
        "not run",
        has_repetition=True,
        notes=(
            "read it with SourceMixtureList.from_yaml; requested_tokens is the run's budget",
        ),
        reads="npy",
        wants=".npy files of tokens",
    ),
    "torchtitan": TrainerFormat(
        "torchtitan, main branch (Grain)",
        "packed rows of one length",
        {
            "mixture.py": (
                PACKED + "mixture = DatasetMixConfig(\n    datasets=(\n",
                EachDomain("        WeightedDataset(dataset=packed({path:j}), weight={weight}),"
                     "  # {name}\n"),
                "    )\n)\n",
            )
        },
        "schema, then Grain 0.2.18 (no release of torchtitan has this loader yet); by hand: "
        "torchtitan's main branch of August 2026",
        "to a row",
        forbidden="\n",
        notes=(
            "config.dataloader = GrainDataLoader.Config(dataset=mixture)",
            "torchtitan 0.2.2 has no mixtures: use pike_mixing.torchtitan there",
        ),
        reads=r"jsonl?(\.\w+)?",
        wants="JSON lines",
    ),
    "levanter": TrainerFormat(
        "levanter, marin",
        "sequences of the model's length",
        {"data.yaml": _levanter_parts((EachDomain("    {name:j}: {weight}\n"),))},
        "schema of September 2025",
        "one file",
        staged={
            "data.yaml": _levanter_parts(
                (
                    EachStage(
                        ("    - [{start}, {{", EachDomain("{name:j}: {weight}", ", "), "}}]\n")
                    ),
                )
            )
        },
        notes=(
            "counts are rounded in blocks of mixture_block_size (2048) sequences; a stage's first "
            "step times the batch size must be a multiple of it",
        ),
    ),
    "litdata": TrainerFormat(
        "litData",
        "samples, as litData's `optimize` stored them",
        {
            "mixture.py": (
                "from litdata import CombinedStreamingDataset, StreamingDataset\n\n"
                "paths = {\n", EachDomain("    {name:j}: {path:j},\n"), "}\n"
                "shares = {\n", EachDomain("    {name:j}: {weight},\n"), "}\n"
                "mixed = CombinedStreamingDataset(\n"
                "    [StreamingDataset(paths[name], shuffle=True) for name in shares],\n"
                "    weights=list(shares.values()),\n"
                "    iterate_over_all=False,\n"
                ")\n",
            )
        },
        "schema; by hand litdata 0.2.66",
        "not run",
        notes=("an epoch ends with the first domain that ends",),
        reads="",
        wants="folders that litdata.optimize made",
    ),
    "mosaicml-streaming": TrainerFormat(
        "MosaicML Streaming",
        "samples, as they were written",
        {
            "mixture.py": (
                "from streaming import Stream, StreamingDataset\n\n"
                "streams = [\n",
                EachDomain("    Stream(local={path:j}, proportion={weight}),  # {name}\n"),
                "]\nmixed = StreamingDataset(streams=streams, shuffle=True, batch_size=1)\n",
            )
        },
        "schema (release 0.13.0 needs NumPy below 2.2)",
        "not run",
        forbidden="\n",
        notes=(
            "set batch_size to the rows of a device, and epoch_size to those of the run; for "
            "remote shards give remote=",
        ),
        reads="",
        wants="folders that its MDSWriter made",
    ),
    "axolotl": TrainerFormat(
        "axolotl",
        "rows as they are stored",
        {
            "datasets.yaml": (
                "datasets:\n",
                EachDomain("  - path: {path:j}\n    split: train[:{rows}]\n    type: completion\n"),
                "shuffle_merged_datasets: true\n",
            )
        },
        "schema, then datasets 5.2.0",
        "to a row",
        needs_rows=True,
        notes=(
            "axolotl has no weights: it joins what each split holds, so that shares are whole rows",
            "a path is a file or a name of the Hub; of a folder of save_to_disk it reads all rows",
            "set `type` to your data's",
        ),
    ),
    "llamafactory": TrainerFormat(
        "LlamaFactory",
        "rows as they are stored, before packing",
        {
            "mixture.yaml": (
                'dataset_dir: "."\ndataset: "', EachDomain("{name}", ","), '"\n'
                'interleave_probs: "', EachDomain("{weight}", ","), '"\n'
                "mix_strategy: interleave_over\nstreaming: true\n",
            ),
            "dataset_info.json": (
                "{{\n", EachDomain('  {name:j}: {{"file_name": {path:j}}}', ",\n"), "\n}}\n",
            ),
        },
        "schema, then datasets 5.2.0",
        "by chance",
        forbidden=',"\\\n',
        notes=("streaming needs max_steps",),
        reads=PLAIN,
        wants="JSON, CSV, text, .parquet or .arrow without .gz or .zst",
    ),
    "ms-swift": TrainerFormat(
        "ms-swift",
        "rows as they are stored, before packing",
        {
            "arguments.sh": (
                "--dataset ", EachDomain("{path:s}", " "),
                " --interleave_prob ", EachDomain("{weight}", " "),
                " --stopping_strategy all_exhausted --streaming true\n",
            )
        },
        "schema, then datasets 5.2.0",
        "by chance",
        forbidden="#:\n",
        notes=("streaming needs --max_steps",),
        reads=PLAIN,
        wants="JSON, CSV, text, .parquet or .arrow without .gz or .zst",
    ),
    "nemo": TrainerFormat(
        "NeMo (PreTrainingDataModule)",
        "sequences of seq_length tokens",
        {"paths.json": ("[\n", EachDomain('  "{weight}", {path:j}', ",\n"), "\n]\n")},
        "megatron-core 0.16.1, called as NeMo does",
        "to a row",
        notes=("PreTrainingDataModule(paths=json.load(open('paths.json')), ...)",),
        reads="",
        wants="prefixes of the .bin and .idx files that Megatron's preprocess_data.py wrote",
    ),
}  # fmt: skip
"""Trainers by the name that `export` knows them by."""


def decimal_text(share: float) -> str:
    """A share without an exponent, which YAML would take for a text, and without a loss."""
    return str(np.format_float_positional(share, unique=True, trim="0"))


def render_file(parts: Sequence[Any], stages: Sequence[Stage], repetition: str = "1.0") -> str:
    """The text of a file, for the domains of the first stage.

    Parts are those of `TrainerFormat.files` or `TrainerFormat.staged`; the repetition says how
    often a domain may be read.
    """
    text = ""
    for part in parts:
        if isinstance(part, EachStage):
            for stage in stages:
                text += render_file(part.parts, [stage], repetition)
        elif isinstance(part, EachDomain):
            items = [_fill_template(part.item, s, repetition) for s in stages[0].sources]
            text += part.between.join(items)
        else:
            start = str(stages[0].start)
            text += part.replace("{start}", start).replace("{{", "{").replace("}}", "}")
    return text


def _fill_template(template: str, source: DomainSource, repetition: str) -> str:
    """One pass over the fields: a path with braces in it is no field."""
    values = {
        "{{": "{",
        "}}": "}",
        "{weight}": decimal_text(source.share),
        "{rows}": str(source.rows),
        "{repetition}": repetition,
        "{name}": source.name,
        "{path}": source.path,
        "{name:j}": json.dumps(source.name, ensure_ascii=False),
        "{path:j}": json.dumps(source.path, ensure_ascii=False),
        "{field:j}": json.dumps(source.field, ensure_ascii=False),
        "{path:s}": shlex.quote(source.path),
    }
    return re.sub(r"\{\{|\}\}|\{[a-z:]+\}", lambda found: values[found[0]], template)
