"""Fetches a public swarm: its files by SHA-256, as one table in the form of `finders.table`."""

import csv
import gzip
import hashlib
import http.client
import io
import os
import urllib.request
from pathlib import Path

from pike_mixing.errors import InputError
from pike_mixing.setting_messages import unknown_name_message
from pike_mixing.swarms.catalogue import (
    KEYS,
    LABELS,
    TABLES,
    PublicSwarm,
    TablePair,
    recorded_digests,
)

SECONDS = 60
"""After which a server that says nothing is given up."""


def download_swarm(name: str, folder: Path, base: str | None = None) -> Path:
    """Writes `<name>.csv.gz` and `<name>.LICENSE` into a folder, each whole or not at all.

    The same files make the same bytes.

    Args:
        name: In `catalogue.TABLES`.
        folder: Where to; it is made.
        base: Where the repository's files lie instead, under their paths there: the address of a
            mirror, or file:///folder.

    Raises:
        InputError: there is no such swarm, nobody has recorded the SHA-256 of its files, one cannot
            be had, one is another file, or the folder cannot be written.
    """
    if name not in TABLES:
        raise InputError(unknown_name_message(name, TABLES, "swarm"))
    swarm, known = TABLES[name], recorded_digests(name)
    if unseen := sorted({path for path in swarm.file_paths() if path not in known}):
        raise InputError(
            f"swarm {name!r}: nobody has recorded the SHA-256 of {', '.join(unseen)} at "
            f"{swarm.repository} {swarm.revision}: download them, check them, and record it in "
            "pike_mixing/swarms/SHA256SUMS"
        )
    files = {
        path: _download_verified(swarm, path, known[path], base) for path in swarm.file_paths()
    }
    rows = [row for part in swarm.parts for row in _rows_of_table_pair(swarm, part, files)]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path = folder / f"{name}.csv.gz"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_atomically(folder / f"{name}.LICENSE", files["LICENSE"])
        _write_atomically(path, gzip.compress(text.getvalue().encode(), mtime=0))
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error}: give another folder") from None
    return path


def _download_verified(swarm: PublicSwarm, path: str, wanted: str, base: str | None) -> bytes:
    url = swarm.url(path) if base is None else f"{base.rstrip('/')}/{path}"
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            content: bytes = answer.read()
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise InputError(
            f"{url} cannot be had: {error}: try again later, or download the files by other means "
            "and name their folder: --from file:///folder"
        ) from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != wanted:
        raise InputError(
            f"{url} has the SHA-256 {digest}, not {wanted}: it is another file; take "
            f"that of {swarm.repository} {swarm.revision}"
        )
    return content


def _rows_of_table_pair(
    swarm: PublicSwarm, part: TablePair, files: dict[str, bytes]
) -> list[dict[str, str]]:
    """The runs of a pair of files, with columns as `finders.table` reads them."""
    ratios, metrics = (
        list(csv.DictReader(io.StringIO(files[path].decode())))
        for path in (part.ratios, part.metrics)
    )
    key = next(name for name in KEYS if name in ratios[0] and name in metrics[0])
    losses = {row[key]: row for row in metrics}
    return [
        {"run": row[key], **part.labels}
        | {f"weight/{n.removeprefix(swarm.ratio_prefix)}": v for n, v in _cells_without_labels(row)}
        | {
            f"loss/{n.removeprefix(swarm.metric_prefix).removesuffix(swarm.metric_suffix)}": v
            for n, v in _cells_without_labels(losses[row[key]])
        }
        | {f"available/{name}": f"{tokens:g}" for name, tokens in swarm.available.items()}
        for row in ratios
        if row[key] in losses
    ]


def _cells_without_labels(row: dict[str, str]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in row.items() if name not in LABELS]


def _write_atomically(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(content)
    beside.replace(path)
