"""What tests of sources write, download and read."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.data import document_store as store
from pipeline.data import sources
from pipeline.runtime import atomic_files


def lines(*records):
    """Records as lines of JSON."""
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def parquet(table, **options):
    """A table, or its columns, as a file of Parquet."""
    sink = io.BytesIO()
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), sink, **options)
    return sink.getvalue()


def download(folder, values, name="web"):
    """The folder of a source's documents, beside its settings."""
    atomic_files.write_json(folder / f"{name}.json", values)
    sources.download_source(folder / f"{name}.json", folder / name)
    return folder / name


def manifest(folder):
    return atomic_files.read_json(folder / atomic_files.MANIFEST)


def read(folder):
    """The texts of downloaded documents."""
    return [text for _, text in store.read_training_documents(folder)]
