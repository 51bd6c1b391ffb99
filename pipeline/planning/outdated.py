"""Finished work that the plan would do otherwise: made under other settings or by other code.

Snakemake tells that by a memory of its own (`.snakemake/`), which stays behind where results are
copied or shared. What made them stands in their manifests.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pike_mixing.errors import InputError
from pipeline.planning import stages
from pipeline.planning.plan import Plan
from pipeline.runtime import atomic_files


class Difference(NamedTuple):
    """A row of the view `stale`."""

    artifact: str
    reason: str
    recorded: str
    expected: str


class _Made(NamedTuple):
    """Where a stage's manifests lie, and which of the plan's settings they are made under."""

    artifact: str
    manifest: str
    section: str
    part: str = ""
    """The setting that names the peer which does the work."""


MADE = {
    "download": _Made("source/{}", "data/{}/manifest.json", "sources", "kind"),
    "tokenizer": _Made("tokenizer/{}", "tokenizers/{}.json", "tokenizers"),
    "pack": _Made("corpus/{}", "corpora/{}/manifest.json", "corpora"),
    "pretrain": _Made("run/{}", "runs/{}/manifest.json", "runs", "rule"),
    "mixture": _Made("mixture/{}", "mixtures/{}.json", "mixtures", "finder"),
    "evaluate": _Made("evaluation/{}", "runs/{}/evaluations/manifest.json", "evaluations"),
    "probe": _Made("probe/{}", "runs/{}/probes/manifest.json", "probes"),
}
"""By stage, in the order of the data's way."""


def every(plan: Plan) -> Iterator[Difference]:
    """What is out of date of all that the plan names."""
    for stage, made in MADE.items():
        for name in getattr(plan, made.section):
            yield from of(plan, stage, name)


def of(plan: Plan, stage: str, name: str) -> Iterator[Difference]:
    """How one finished piece of work differs from the plan; nothing of what is not finished.

    A manifest that cannot be read is refused where it is read, with a message.
    """
    made = MADE[stage]
    settings, artifact = plan.named(made.section, name), made.artifact.format(name)
    try:
        found = atomic_files.read_json(Path(manifest(plan, stage, name)))
        recorded, fingerprint = (
            atomic_files.digest(found["settings"]),
            str(found["code"]["fingerprint"]),
        )
    except (InputError, KeyError, TypeError, ValueError):
        return
    if recorded != (expected := atomic_files.digest(settings)):
        yield Difference(artifact, "settings", recorded, expected)
    if fingerprint != (expected := stages.code(stage, settings.get(made.part))):
        yield Difference(artifact, "code", fingerprint, expected)


def manifests(plan: Plan, stage: str, wildcards: Iterable[str]) -> list[str]:
    """The manifest of one finished piece of work where it differs from the plan; else none.

    Args:
        plan: The plan.
        stage: The stage that makes it.
        wildcards: Values of its rule's wildcards, in order.
    """
    name = "/".join(map(str, wildcards))
    return [manifest(plan, stage, name)] if any(of(plan, stage, name)) else []


def manifest(plan: Plan, stage: str, name: str) -> str:
    """Where the manifest of a piece of work lies, or will."""
    return f"{plan.results}/{MADE[stage].manifest.format(name)}"
