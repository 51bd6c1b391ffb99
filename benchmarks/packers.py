"""What turns documents into tokens on disk beside `pike pack`: one function for each way.

Each reads the Parquet files of a folder of documents and encodes them with the same SentencePiece
model (datatrove with the same pieces in the format of its own tokenizers). Where a peer leaves the
encoding to its user, it is SentencePiece's fastest: batches of bytes to NumPy's arrays.
"""

import functools
import importlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sentencepiece

from benchmarks import peers

LENGTH = 1024
MODEL, FAST_MODEL = "tokens.model", "tokenizer.json"

Tokens = npt.NDArray[Any]


@functools.cache
def _processor(folder: Path) -> Any:
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / MODEL))


def _listed(folder: Path, source: str) -> list[Path]:
    return sorted((folder / source).glob("*.parquet"))


def _fresh(folder: Path, name: str) -> Path:
    """A place that no earlier round has written to."""
    return folder / f"{name}-{time.time_ns()}"


def _texts(path: Path, group: int) -> list[bytes]:
    column = pq.ParquetFile(path).read_row_group(group, columns=["text"]).column("text")
    texts: list[bytes] = pc.cast(column.combine_chunks(), pa.binary()).to_pylist()
    return texts


def _encoded(folder: Path, path: Path, group: int, workers: int) -> list[Tokens]:
    """The tokens of each document of a row group."""
    encoded: list[Tokens] = _processor(folder).encode(
        _texts(path, group), out_type="numpy", num_threads=workers
    )
    return encoded


def _groups(folder: Path, source: str) -> Iterator[tuple[Path, int]]:
    for path in _listed(folder, source):
        for group in range(pq.read_metadata(path).num_row_groups):
            yield path, group


def encode(folder: Path, source: str, workers: int) -> None:
    """SentencePiece's own batch encoding of the documents, results dropped."""
    for path, group in _groups(folder, source):
        _encoded(folder, path, group, workers)


def datasets(folder: Path, source: str, workers: int) -> None:
    """Tokenises with `datasets.map` and writes a memory map, as nanoGPT prepares text."""
    package = importlib.import_module("datasets")
    processor = _processor(folder)
    listed = [str(path) for path in _listed(folder, source)]
    cache = str(_fresh(folder, "cache"))
    rows = package.load_dataset("parquet", data_files=listed, split="train", cache_dir=cache)

    def tokens(row: dict[str, str]) -> dict[str, Any]:
        ids = [*processor.encode(row["text"]), processor.eos_id()]
        return {"ids": ids, "len": len(ids)}

    done = rows.map(tokens, remove_columns=["id", "text"], num_proc=workers)
    total = int(np.sum(done["len"], dtype=np.int64))
    out = np.memmap(f"{cache}.bin", dtype=np.uint16, mode="w+", shape=(total,))
    place = 0
    for number in range(64):
        part = done.shard(num_shards=64, index=number, contiguous=True).with_format("numpy")
        if len(part):
            stream = np.concatenate(part["ids"])
            out[place : place + len(stream)] = stream
            place += len(stream)
    out.flush()


def datatrove(folder: Path, source: str, workers: int) -> None:
    """`ParquetReader` and `DocumentTokenizer` of datatrove, without shuffling."""
    executor = importlib.import_module("datatrove.executor").LocalPipelineExecutor
    reader = importlib.import_module("datatrove.pipeline.readers").ParquetReader
    writer = importlib.import_module("datatrove.pipeline.tokens").DocumentTokenizer
    out = _fresh(folder, "datatrove")
    executor(
        pipeline=[
            reader(str(folder / source), glob_pattern="*.parquet"),
            writer(
                output_folder=str(out / "tokens"),
                tokenizer_name_or_path=str(folder / FAST_MODEL),
                eos_token="</s>",
                shuffle_documents=False,
            ),
        ],
        tasks=workers,
        workers=workers,
        logging_dir=str(out / "logs"),
    ).run()


def litdata(folder: Path, source: str, workers: int) -> None:
    """`optimize` of litdata with `TokensLoader`, in processes of its own."""
    package = importlib.import_module("litdata")
    loader = importlib.import_module("litdata.streaming.item_loader").TokensLoader
    package.optimize(
        fn=functools.partial(_documents, folder=str(folder)),
        inputs=[f"{path}:{group}" for path, group in _groups(folder, source)],
        output_dir=str(_fresh(folder, "litdata")),
        chunk_bytes="64MB",
        num_workers=workers,
        item_loader=loader(),
    )


def _documents(name: str, folder: str) -> Iterator[Any]:
    torch, place = importlib.import_module("torch"), Path(folder)
    path, _, group = name.rpartition(":")
    end = _processor(place).eos_id()
    for ids in _encoded(place, Path(path), int(group), 1):
        yield torch.from_numpy(np.append(ids, end).astype(np.uint16))


def mosaicml(folder: Path, source: str, workers: int) -> None:
    """`MDSWriter` of mosaicml-streaming: rows of L + 1 tokens, with SHA-1 of each shard."""
    columns, out = {"tokens": f"ndarray:uint16:{LENGTH + 1}"}, _fresh(folder, "mds")
    end, left = _processor(folder).eos_id(), np.empty(0, np.uint16)
    with peers.streaming().MDSWriter(columns=columns, out=str(out), hashes=["sha1"]) as writer:
        for path, group in _groups(folder, source):
            parts = [p for ids in _encoded(folder, path, group, workers) for p in (ids, [end])]
            stream = np.concatenate([left, *parts]).astype(np.uint16)
            rows = len(stream) // (LENGTH + 1)
            for row in stream[: rows * (LENGTH + 1)].reshape(rows, LENGTH + 1):
                writer.write({"tokens": row})
            left = stream[rows * (LENGTH + 1) :]


PACKERS: dict[str, Callable[[Path, str, int], None]] = {
    "encode": encode,
    "datasets": datasets,
    "datatrove": datatrove,
    "litdata": litdata,
    "mosaicml-streaming": mosaicml,
}
