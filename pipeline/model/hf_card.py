"""The model card of an exported model, from the manifests of the run and of its corpora.

`card.md` is its text, with blanks.
"""

from pathlib import Path
from typing import Any

import jinja2
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files, checksums, manifests

TEMPLATE = Path(__file__).with_name("hf_card.md")


def text(run: Path, step: int, facts: dict[str, Any]) -> str:
    """The card.

    Args:
        run: Folder of the finished run.
        step: Updates after which the exported checkpoint was taken.
        facts: What the export knows: name, vocabulary, pieces, eos, tokenizer_sha256, transformers,
            difference, texts.

    Raises:
        InputError: a manifest is missing.
    """
    manifest, _ = manifests.of_run(run)
    training = manifest["settings"]["training"]
    read = _read(run, manifest, step)
    corpora = [manifests.read(path, "pack") for path in corpus_manifests(run, manifest)]
    domains = [
        {
            "name": name,
            "licence": corpus["licence"],
            "revision": corpus["revision"] or "-",
            "tokens": corpus["splits"]["train"]["tokens"],
            "read": read.get(name, 0),
        }
        for name, corpus in zip(manifest["domains"], corpora, strict=True)
    ]
    versions = ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())
    sha256 = atomic_files.sha256(run / "checkpoints" / f"step{step}" / "model.safetensors")
    given = manifest | facts | {"domains": domains, "step": step, "training": training}
    given |= {"versions": versions, "weights_sha256": sha256}
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(given)


def corpus_manifests(run: Path, manifest: dict[str, Any]) -> list[Path]:
    """Those of a finished run's corpora, in the order of its domains.

    Raises:
        InputError: the run's manifest does not name one.
    """
    inputs = [run / name for name in manifest["inputs"]]
    by_domain = {path.parent.name: path for path in inputs if path.name == atomic_files.MANIFEST}
    lost = [domain for domain in manifest["domains"] if domain not in by_domain]
    if lost:
        raise InputError(
            f"{run / atomic_files.MANIFEST} names no corpus of {', '.join(lost)}: train it again"
        )
    return [by_domain[domain] for domain in manifest["domains"]]


def _read(run: Path, manifest: dict[str, Any], step: int) -> dict[str, int]:
    """Tokens of each domain that the first `step` batches held."""
    path, length = run / "weights.parquet", manifest["settings"]["training"]["length"]
    listed = checksums.sealed(run, manifest, "train the run again")
    for problem in (checksums.altered(file) for file in listed if file.path == path):
        if problem:
            raise InputError(problem)
    rows = pq.read_table(path, columns=["step", "domain", "count"])
    before = rows.filter(rows["step"].to_numpy() < step)
    summed = before.group_by("domain").aggregate([("count", "sum")]).to_pylist()
    return {row["domain"]: row["count_sum"] * length for row in summed}
