"""The mixture stage: what finished proxy runs say that the final run should train on.

Reads of each proxy its manifest and, as the finder wants it, its last evaluation or the state of
its mixing method; writes one JSON file, the mixture and its manifest in one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from safetensors.numpy import load_file

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders import registry, swarm
from pike_mixing.finders.interface import Finder, Proxy
from pike_mixing.settings import indivisible, parse, unknown
from pipeline.runtime import atomic_files, manifests, ownership

METHOD = "method."
"""Prefix of the mixing method's state in a checkpoint."""
TRAINING = "training.safetensors"


@dataclass(frozen=True)
class ProxyRun:
    """Where one proxy run lies and what it trained on."""

    folder: str
    """The run's folder."""
    weights_by_domain: dict[str, float] | None
    """Its static mixture, divided by its sum; none when its settings do not hold it."""


@dataclass(frozen=True)
class Search:
    """What a mixture is a function of, beside the proxies' records and the code."""

    finder: str
    """Name in `pike_mixing.finders.FINDERS`."""
    domains: tuple[str, ...]
    """Names of the domains of the proxies and of the final run."""
    options: dict[str, Any]
    """The finder's settings."""
    proxies: dict[str, ProxyRun]
    """Proxy runs by name."""

    def problems(self) -> list[str]:
        """Domains or mixtures that do not fit each other."""
        twice = sorted({d for d in self.domains if self.domains.count(d) > 1})
        found = [f"domains: {d!r} is named twice" for d in twice]
        for name, proxy in self.proxies.items():
            weights, where = proxy.weights_by_domain, f"proxies.{name}.weights_by_domain"
            if weights is None:
                continue
            found += indivisible(weights, where)
            found += [unknown(d, self.domains, where) for d in weights if d not in self.domains]
            found += [f"{where}: {d!r} is missing" for d in self.domains if d not in weights]
        return found + ([] if self.domains else ["domains: name at least one"])


def find(settings: Path, runs: Sequence[Path], out: Path) -> None:
    """Finds a mixture and writes it with the manifest's facts `weights_by_domain`, `diagnostics`.

    Args:
        settings: JSON of the fields of `Search`.
        runs: Folders of the finished proxy runs: those of the settings, in any order.
        out: The JSON file to make.

    Raises:
        InputError: wrong settings, runs that are not those of the settings, a proxy that is not
            finished or not evaluated, records that are damaged or of other domains, or runs from
            which the finder cannot find a mixture.
    """
    values = atomic_files.read_json(settings)
    asked = parse(Search, values, str(settings))
    finder = registry.build(asked.finder, asked.options, f"{settings}: options")
    _refuse_others(asked, runs, settings)
    ownership.refuse(out, "mixture", [settings, *runs])
    # The order in which proxies are listed must not decide between equals or fill the folds.
    read = [_read(name, asked.proxies[name], asked, finder) for name in sorted(asked.proxies)]
    found = finder.find(asked.domains, [proxy for proxy, _ in read])
    weights = dict(zip(asked.domains, found.weights_K.tolist(), strict=True))
    atomic_files.write_manifest(
        out,
        stage="mixture",
        settings=values,
        inputs=[path for _, paths in read for path in paths],
        files=[],
        modules=registry.modules(asked.finder),
        facts={"weights_by_domain": weights, "diagnostics": found.diagnostics},
        alone=True,
    )


def _refuse_others(asked: Search, runs: Sequence[Path], settings: Path) -> None:
    wanted = {Path(proxy.folder).resolve(): proxy.folder for proxy in asked.proxies.values()}
    given = {path.resolve(): str(path) for path in runs}
    problems = [
        f"{text} is given, but is no proxy of {settings}: leave it out"
        for path, text in given.items()
        if path not in wanted
    ]
    problems += [
        f"{text} is a proxy of {settings}, but is not given: add it to the runs"
        for path, text in wanted.items()
        if path not in given
    ]
    if problems:
        raise InputError("\n".join(problems))


def _read(name: str, source: ProxyRun, asked: Search, finder: Finder) -> tuple[Proxy, list[Path]]:
    """One proxy and the manifests that were read for it."""
    folder, domains = Path(source.folder), asked.domains
    path = folder / atomic_files.MANIFEST
    if not path.is_file():
        raise InputError(f"proxy {name}: {path} does not exist: train the run to its end first")
    record = manifests.read(path, "pretrain", "train the run again")
    _refuse_other_domains(name, record["domains"], domains)
    if source.weights_by_domain is None:
        weights_K = _constant(name, folder, record, domains) if finder.reads == "losses" else None
    else:
        _refuse_other_weights(name, record, source.weights_by_domain)
        weights_K = swarm.shares(source.weights_by_domain, domains, name)
    step = f"step{record['steps']}"
    if finder.reads == "losses":
        loss_K = _losses(name, folder / "evaluations", record["steps"], domains)
        inputs = [path, folder / "evaluations" / atomic_files.MANIFEST]
        return Proxy(name, weights_K=weights_K, loss_K=loss_K), inputs
    if record["domains"] != list(domains):
        raise InputError(
            f"proxy {name} has the domains in the order {', '.join(record['domains'])}, the "
            f"mixture in the order {', '.join(domains)}: give both the same order"
        )
    state = _state(name, folder / "checkpoints" / step)
    inputs = [path, folder / "checkpoints" / step / atomic_files.MANIFEST]
    return Proxy(name, weights_K=weights_K, state=state), inputs


def _constant(
    name: str, folder: Path, record: Mapping[str, Any], domains: tuple[str, ...]
) -> Floats | None:
    """The weights that a run sampled with at every step; None where they moved.

    A method may be static without weights in its settings: Mix, or one that trains on a mixture
    which others found.
    """
    path = folder / "weights.parquet"
    _refuse_other_file(path, folder, record, f"run `pike pretrain` for {name} again")
    columns = pq.read_table(path, columns=["domain", "weight"]).to_pydict()
    seen = set(zip(columns["domain"], columns["weight"], strict=True))
    if len(seen) != len(domains):
        return None
    return swarm.shares(dict(seen), domains, name)


def _refuse_other_file(path: Path, folder: Path, record: Mapping[str, Any], again: str) -> None:
    listed = record["files"].get(str(path.relative_to(folder)))
    if listed is None or not path.is_file() or atomic_files.sha256(path) != listed["sha256"]:
        raise InputError(f"{path} is not the file that its manifest lists: {again}")


def _refuse_other_domains(name: str, theirs: Sequence[str], domains: Sequence[str]) -> None:
    if set(theirs) != set(domains):
        raise InputError(
            f"proxy {name} trained on {', '.join(theirs)}, but a mixture of {', '.join(domains)} "
            "is wanted: use proxies of the same domains"
        )


def _refuse_other_weights(
    name: str, record: Mapping[str, Any], weights: Mapping[str, float]
) -> None:
    """A run that wrote its weights down must have trained on those that it is taken for."""
    trained = record["settings"]["method"].get("weights_by_domain")
    if trained is None:
        return
    domains = tuple(record["domains"])
    theirs_K, ours_K = (swarm.shares(values, domains, name) for values in (trained, weights))
    if np.abs(theirs_K - ours_K).max() > 1e-9:
        raise InputError(
            f"proxy {name} trained on {trained}, not on the weights_by_domain of the settings: "
            "train it again, or correct the settings"
        )


def _losses(name: str, folder: Path, steps: int, domains: tuple[str, ...]) -> Floats:
    """Nats per token of each domain after the last step."""
    path = folder / f"step{steps}" / "perplexities.parquet"
    again = f"run `pike evaluate` for {name} again"
    if not (folder / atomic_files.MANIFEST).is_file() or not path.is_file():
        raise InputError(f"proxy {name} has no evaluation after its last step ({path}): {again}")
    record = manifests.read(folder / atomic_files.MANIFEST, "evaluate", again)
    _refuse_other_file(path, folder, record, again)
    columns = pq.read_table(path, columns=["step", "domain", "nll"]).to_pydict()
    loss = dict(zip(columns["domain"], columns["nll"], strict=True))
    missing = [d for d in domains if d not in loss]
    if missing:
        raise InputError(
            f"proxy {name} was not evaluated on {', '.join(missing)}: a mixture needs the loss of "
            f"every domain; {again} with these domains"
        )
    assert set(columns["step"]) == {steps}
    return np.array([math.nan if loss[d] is None else loss[d] for d in domains])


def _state(name: str, folder: Path) -> dict[str, npt.NDArray[Any]]:
    """State of the mixing method in a checkpoint."""
    path = folder / TRAINING
    again = f"run `pike pretrain` for {name} again"
    if not path.is_file() or not (folder / atomic_files.MANIFEST).is_file():
        raise InputError(f"proxy {name} has no checkpoint of its last step ({path}): {again}")
    if manifests.of_checkpoint(folder)["sha256"].get(TRAINING) != atomic_files.sha256(path):
        raise InputError(f"{path} is damaged: its checksum is not its manifest's; {again}")
    return {
        key.removeprefix(METHOD): value
        for key, value in load_file(path).items()
        if key.startswith(METHOD)
    }
