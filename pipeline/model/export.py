"""`pike export`: a checkpoint as a model directory that transformers loads."""

from pathlib import Path
from typing import Any

import jinja2
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pipeline import errors
from pipeline.runtime import atomic_files, checksums, manifests, ownership

TEMPLATE = Path(__file__).with_name("hf_card.md")


def export_run(run: Path, *, out: Path, step: int | None = None) -> str:
    """Writes the model directory of a finished run's checkpoint, and loads it as others will.

    Args:
        run: The run's folder.
        out: The directory to make; it appears whole or not at all.
        step: Updates of the checkpoint; the last one when absent.

    Returns:
        What was made, in a line.

    Raises:
        InputError: the run is not finished or has no such checkpoint, `out` is somebody else's, the
            tokenizer is not where it was, transformers has no such architecture, or what it loads
            computes something else.
    """
    manifest, work = manifests.read_run_manifest_and_settings(run)
    step = manifest["steps"] if step is None else step
    if step not in manifest["checkpoints"]:
        kept = ", ".join(map(str, manifest["checkpoints"]))
        raise InputError(f"{run} keeps no checkpoint of step {step}: --step takes one of {kept}")
    ownership.refuse_foreign_output(out, "export", [run])
    pieces = _tokenizer_file(run, manifest)
    # Takes seconds and needs an extra: what is asked is checked first.
    from pipeline.model import hf_folder

    with errors.explain_disk_errors(out), atomic_files.atomic_write(out) as partial:
        partial.mkdir()
        saved = run / "checkpoints" / f"step{step}"
        facts = hf_folder.write_hf_folder_and_return_facts(
            partial, saved, pieces, work.training.length
        )
        card = _model_card(run, manifest, step, {"name": out.name, **facts})
        (partial / "README.md").write_text(card, encoding="utf-8")
    return (
        f"{out}: {facts['parameters']:,} parameters after {step:,} steps, checked by "
        f"transformers {facts['transformers']} (logits within {facts['difference']:.1e})"
    )


def _tokenizer_file(run: Path, manifest: dict[str, Any]) -> Path:
    """The model file that the run's corpora were packed with."""
    corpus = _corpus_manifest_paths(run, manifest)[0]
    packed = manifests.read_manifest(corpus, "pack")
    result = [corpus.parent / name for name in packed["inputs"] if name.endswith(".model")]
    wanted = packed["tokenizer"]["sha256"]
    for path in result:
        if path.is_file() and atomic_files.sha256(path) == wanted:
            return path
    raise InputError(
        f"the tokenizer of {corpus.parent} is not at {', '.join(map(str, result))} any more: put "
        f"the file of SHA-256 {wanted} there"
    )


def _model_card(run: Path, manifest: dict[str, Any], step: int, facts: dict[str, Any]) -> str:
    """The model card: `hf_card.md` with what the manifests and the export know.

    `facts` has name, vocabulary, pieces, eos, tokenizer_sha256, transformers, difference, texts.
    """
    training = manifest["settings"]["training"]
    read = _tokens_read_by_domain(run, manifest, step)
    corpora = [
        manifests.read_manifest(path, "pack") for path in _corpus_manifest_paths(run, manifest)
    ]
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


def _corpus_manifest_paths(run: Path, manifest: dict[str, Any]) -> list[Path]:
    """Manifests of a finished run's corpora, in the order of its domains."""
    inputs = [run / name for name in manifest["inputs"]]
    by_domain = {path.parent.name: path for path in inputs if path.name == atomic_files.MANIFEST}
    return [by_domain[domain] for domain in manifest["domains"]]


def _tokens_read_by_domain(run: Path, manifest: dict[str, Any], first_steps: int) -> dict[str, int]:
    """Tokens of each domain that the batches of the first steps held."""
    path, length = run / "weights.parquet", manifest["settings"]["training"]["length"]
    listed = checksums.files_as_listed(run, manifest, "train the run again")
    checksums.refuse_damaged([file for file in listed if file.path == path], content=True)
    rows = pq.read_table(path, columns=["step", "domain", "count"])
    before = rows.filter(rows["step"].to_numpy() < first_steps)
    summed = before.group_by("domain").aggregate([("count", "sum")]).to_pylist()
    return {row["domain"]: row["count_sum"] * length for row in summed}
