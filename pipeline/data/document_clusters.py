"""`pike domains`: documents of unknown kinds, clustered into sources that a scenario can mix.

The first half of CLIMB (Diao et al., NeurIPS 2025, arXiv 2504.13161): documents become vectors,
k-means makes clusters of them, and the clusters are the domains. CLIMB takes embeddings of a neural
model, leaves out clusters of low quality and merges near ones. Here vectors are TF-IDF weights of
words, reduced by latent semantic analysis: nothing is fetched, and all clusters are kept. CLIMB's
second half is rounds of proxies and a predictor; a swarm and a finder (`mixtures`) are one round.

Shapes: N documents, V words, C clusters.
"""

import contextlib
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from pike_mixing.arrays import Ints
from pike_mixing.errors import InputError
from pipeline.data import document_filters
from pipeline.data.local_files import LocalSource
from pipeline.data.source_interface import Document
from pipeline.runtime import atomic_files, made_from
from pipeline.runtime.validate_settings import validate

SECTIONS = "domains.yaml"
WORDS = 50_000
"""Words with a weight, at most: the most frequent of those in two documents and in half at most."""
DIMENSIONS = 100
"""Of a document's vector, at most."""
TERMS = 8
"""Words that tell a cluster, in the answer."""
TextBytes = int
"""Bytes of documents' texts in UTF-8, without the JSON around them."""


def write_clusters(
    given: Sequence[str | Path],
    *,
    out: Path,
    clusters: int,
    documents: str = "file",
    field: str = "text",
    seed: int = 0,
) -> str:
    """Writes the documents of each cluster, and `domains.yaml` with a section `sources` of them.

    The domains are cluster-1 and so on, the largest first.

    Args:
        given: Files, or patterns of files, as a source of kind local takes them.
        out: The folder to make.
        clusters: How many domains.
        documents: What a document of a text file is, as in a source of kind local.
        field: JSON field or Parquet column of the text.
        seed: Of the clustering.

    Returns:
        A table: documents, bytes and telling words of each domain; and what to do with it.

    Raises:
        InputError: files that cannot be read, documents too few or without words.
    """
    values = {"files": tuple(map(str, given)), "documents": documents, "field": field}
    source = validate(LocalSource, values, "domains")
    inputs = [file.path for file in source.user_files()]
    taken = made_from.InputSnapshot("domains", [__name__], given=inputs)
    texts = (document.text for document in source.read(Counter(), []))
    cluster_N, words_C = cluster_documents(texts, clusters, seed)
    names = [f"cluster-{c + 1}" for c in range(clusters)]
    files = [f"{name}.jsonl.gz" for name in names]
    sources = {
        name: {"kind": "local", "files": str(out.resolve() / file)}
        for name, file in zip(names, files, strict=True)
    }
    with atomic_files.atomic_write(out, "domains", inputs) as folder:
        folder.mkdir()
        paths = [folder / file for file in files]
        bytes_C = _write_cluster_files(paths, cluster_N, source.read(Counter(), []))
        (folder / SECTIONS).write_text(
            f"# Clusters of documents; in a scenario: domains: [{', '.join(names)}]\n"
            + yaml.safe_dump({"sources": sources}, sort_keys=False)
        )
        taken.write_manifest(
            folder / atomic_files.MANIFEST,
            settings=values | {"clusters": clusters, "seed": seed},
            files=[*paths, folder / SECTIONS],
            facts={"domains": dict(zip(names, words_C, strict=True))},
        )
    count_C = np.bincount(cluster_N, minlength=clusters)
    width = len(names[-1])
    lines = [f"{'domain':<{width}}  documents        bytes  words"]
    for name, count, size, words in zip(names, count_C, bytes_C, words_C, strict=True):
        lines.append(f"{name:<{width}}  {count:>9,}  {size:>11,}  {' '.join(words)}")
    return "\n".join([*lines, "", f"{out / SECTIONS} has them as sources for a configuration"])


def _write_cluster_files(
    paths: Sequence[Path], cluster_N: Ints, documents: Iterator[Document]
) -> list[TextBytes]:
    """Writes each document to its cluster's file; returns the text that each holds."""
    sizes = [0] * len(paths)
    with contextlib.ExitStack() as opened:
        # The same documents make the same bytes: no time of writing.
        outputs = [opened.enter_context(gzip.GzipFile(path, "wb", mtime=0)) for path in paths]
        for cluster, document in zip(cluster_N.tolist(), documents, strict=True):
            line = json.dumps(document._asdict(), ensure_ascii=False) + "\n"
            outputs[cluster].write(line.encode())
            sizes[cluster] += len(document.text.encode())
    return sizes


class Clusters(NamedTuple):
    """Clusters of documents, the largest first."""

    cluster_N: Ints
    """The cluster of each document."""
    words_C: list[list[str]]
    """The words that tell each cluster."""


def cluster_documents(texts: Iterator[str], clusters: int, seed: int) -> Clusters:
    """Clusters N documents into C clusters by their words."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    # Words of two characters or more; of scripts without blanks between words, each character.
    mark = document_filters.combining_mark_pattern()
    letter = document_filters.LETTER
    words = f"{document_filters.UNSPACED}|{letter}(?:{letter}|{mark})+"
    vectorizer = TfidfVectorizer(
        token_pattern=words, sublinear_tf=True, min_df=2, max_df=0.5, max_features=WORDS
    )
    try:
        weight_NxV = vectorizer.fit_transform(texts)
    except ValueError as error:
        raise InputError(
            f"the documents cannot be told apart by words ({error}): give more of them, or cut "
            "text files (--documents paragraphs)"
        ) from None
    N, V = weight_NxV.shape
    if 2 * clusters > N:
        raise InputError(
            f"{N} documents are too few for {clusters} clusters: give more of them, cut text files "
            "(--documents paragraphs), or ask for fewer clusters"
        )
    vector_NxD = weight_NxV
    if min(N, V) > DIMENSIONS + 1:
        reduction = TruncatedSVD(DIMENSIONS, random_state=seed)
        vector_NxD = normalize(reduction.fit_transform(weight_NxV))
    found_N = KMeans(clusters, n_init=4, random_state=seed).fit_predict(vector_NxD)
    if (different := len(np.unique(found_N))) < clusters:
        raise InputError(
            f"the documents have words of {different} kinds only, too few for {clusters} clusters: "
            "leave out duplicates, or ask for fewer clusters"
        )
    order_C = np.argsort(-np.bincount(found_N, minlength=clusters), kind="stable")
    cluster_N = np.argsort(order_C)[found_N]
    words_V = vectorizer.get_feature_names_out()
    words_C = []
    for cluster in range(clusters):
        # The words whose mean weight in its documents is most above that in all.
        lead_V = weight_NxV[cluster_N == cluster].mean(axis=0) - weight_NxV.mean(axis=0)
        first = np.argsort(-np.asarray(lead_V).ravel(), kind="stable")[:TERMS]
        words_C.append(list(map(str, words_V[first])))
    return Clusters(cluster_N, words_C)
