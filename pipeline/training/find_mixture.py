"""The mixture stage: what finished proxy runs say that the final run should train on.

Reads of each proxy its manifest and, as the finder wants it, its last evaluation or the state of
its mixing method; writes one JSON file, the mixture and its manifest in one.
"""

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from safetensors.numpy import load_file

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders import build_finder
from pike_mixing.finders.interface import Proxy, Swarm
from pike_mixing.setting_limits import Limits, Proportions
from pike_mixing.setting_messages import domain_mismatch_problems
from pipeline.runtime import atomic_files, made_from, manifests, ownership
from pipeline.runtime.validate_settings import validate
from pipeline.settings import GRID

log = logging.getLogger("pike")

METHOD = "method."
"""Prefix of the mixing method's state in a checkpoint."""
TRAINING = "training.safetensors"


@dataclass(frozen=True)
class ProxyRun:
    """Where one proxy run lies and what it trained on."""

    folder: str
    """The run's folder."""
    weights_by_domain: Proportions | None
    """Its static mixture, divided by its sum; none when its settings do not hold it."""
    gives: dict[str, Any] | None = None
    """Settings that it gives to others if it is the best of a grid; none outside of grids."""


@dataclass(frozen=True)
class MixtureSearch:
    """What a mixture is a function of, beside the proxies' records and the code."""

    finder: str
    """Name in `pike_mixing.finders.FINDERS`, or "grid"."""
    domains: Annotated[tuple[str, ...], Limits(filled=True, distinct=True)]
    """Names of the domains of the proxies and of the final run."""
    options: dict[str, Any]
    """The finder's settings."""
    proxies: dict[str, ProxyRun]
    """Proxy runs by name."""
    order: tuple[str, ...] = ()
    """Of a grid: the runs' names in the order of its settings, and within them of their seeds."""

    def problems(self) -> list[str]:
        """Mixtures of other domains, an order of other runs."""
        problems = []
        if self.order and {*self.order} != {*self.proxies}:
            problems.append("order: name each of the proxies, and nothing else")
        for name, proxy in self.proxies.items():
            weights, where = proxy.weights_by_domain, f"proxies.{name}.weights_by_domain"
            if weights is not None:
                problems += domain_mismatch_problems(weights, self.domains, where, "has no weight")
        return problems


def find_mixture(settings: Path, out: Path) -> None:
    """Finds a mixture and writes it with the manifest's facts `weights_by_domain`, `diagnostics`.

    Of a grid, the facts are `chosen`, the settings that the best run gives, and `diagnostics`.
    `settings` is JSON of the fields of `MixtureSearch`.

    Raises:
        InputError: wrong settings, a proxy that is not finished or not evaluated, records that are
            damaged or of other domains, or runs from which the finder cannot find a mixture.
    """
    values = atomic_files.read_json(settings)
    search = validate(MixtureSearch, values, str(settings))
    finder = None
    modules: Sequence[str] = [__name__]
    if search.finder != GRID:
        finder = build_finder.build_finder(search.finder, search.options, f"{settings}: options")
        modules = [__name__, build_finder.finder_module(search.finder)]
    folders = [Path(proxy.folder) for proxy in search.proxies.values()]
    ownership.refuse_foreign_output(out, "mixture", [settings, *folders])
    snapshot = made_from.InputSnapshot("mixture", modules)
    # The order in which proxies are listed must not decide between equals or fill the folds.
    reads = finder.reads if finder else "losses"
    named = sorted(search.proxies)
    proxies = [_read_proxy(name, search.proxies[name], search, reads, snapshot) for name in named]
    for proxy_settings in values["proxies"].values():
        # Where a run lies changes no mixture: results can be moved.
        del proxy_settings["folder"]
    if snapshot.restore_manifest_if_unchanged(out, values):
        return
    if finder is None:
        facts = _choose_grid_settings(search, proxies)
    else:
        result = finder.find(Swarm(search.domains, proxies))
        weights = dict(zip(search.domains, result.weights_K.tolist(), strict=True))
        facts = {"weights_by_domain": weights, "diagnostics": result.diagnostics}
    snapshot.write_manifest(out, settings=values, files=[], facts=facts)


def _choose_grid_settings(search: MixtureSearch, proxies: Sequence[Proxy]) -> dict[str, Any]:
    """What the runs with the lowest mean loss, weighed by the target, give.

    Settings that the grid names before them win where they are no worse than one standard error of
    the difference, paired by seed (the one-standard-error rule of Breiman et al. 1984); one seed
    gives no error, and the lowest loss wins. Runs that give the same differ in their seed.
    """
    target = search.options.get("target", dict.fromkeys(search.domains, 1.0))
    weights_K = by_domain.values_in_order(target, search.domains, "target", "weight")
    losses = {
        p.name: float(np.average(p.loss_K, weights=weights_K))
        for p in proxies
        if p.loss_K is not None
    }
    alike: dict[str, list[str]] = {}
    for name in search.order or losses:
        alike.setdefault(json.dumps(search.proxies[name].gives, sort_keys=True), []).append(name)
    by_seed = {names[0]: np.array([losses[n] for n in names]) for names in alike.values()}
    finite = [name for name, loss_S in by_seed.items() if np.isfinite(loss_S).all()]
    if not finite:
        raise InputError(
            "all runs of the grid diverged: their losses are no numbers: choose other settings"
        )
    # The first of equal ones.
    lowest = min(finite, key=lambda name: float(by_seed[name].mean()))
    against = {name: _mean_and_stderr(by_seed[name] - by_seed[lowest]) for name in finite}
    best = next(
        name
        for name, (mean, stderr) in against.items()
        if name == lowest or (stderr is not None and mean <= stderr)
    )
    told: dict[str, Any] = {
        "run": best,
        "losses": {n: v if math.isfinite(v) else None for n, v in losses.items()},
    }
    others = [name for name in finite if name != best]
    if others:
        second = min(others, key=lambda name: float(by_seed[name].mean()))
        mean, stderr = _mean_and_stderr(by_seed[second] - by_seed[best])
        told["next"] = {
            "gives": search.proxies[second].gives,
            "difference": mean,
            "stderr": stderr,
            "seeds": len(by_seed[second]),
        }
    if len(by_seed) > 2 and best in (ends := [*by_seed])[:: len(ends) - 1]:
        log.warning(
            "the %s of the grid's %d settings is chosen, %s: others beyond it may be better: add "
            "some to grids.*.methods",
            "first" if best == ends[0] else "last",
            len(ends),
            json.dumps(search.proxies[best].gives),
        )
    return {"weights_by_domain": {}, "chosen": search.proxies[best].gives, "diagnostics": told}


def _mean_and_stderr(difference_S: Floats) -> tuple[float, float | None]:
    """The mean of differences over S seeds, and its standard error, of which one seed has none."""
    mean, seeds = float(difference_S.mean()), len(difference_S)
    return mean, float(difference_S.std(ddof=1) / math.sqrt(seeds)) if seeds > 1 else None


def _read_proxy(
    name: str,
    source: ProxyRun,
    search: MixtureSearch,
    reads: str,
    input_snapshot: made_from.InputSnapshot,
) -> Proxy:
    """One proxy; the snapshot takes the manifests that are read for it."""
    folder, domains = Path(source.folder), search.domains
    path = folder / atomic_files.MANIFEST
    if not path.is_file():
        raise InputError(f"proxy {name}: {path} does not exist: train the run to its end first")
    input_snapshot.take_digests([path])
    record = manifests.read_manifest(path, "pretrain", "train the run again")
    if set(record["domains"]) != set(domains):
        raise InputError(
            f"proxy {name} trained on {', '.join(record['domains'])}, but a mixture of "
            f"{', '.join(domains)} is wanted: use proxies of the same domains"
        )
    weights_K = None
    if source.weights_by_domain is not None:
        weights_K = by_domain.shares_in_order(source.weights_by_domain, domains, name)
    if reads == "state":
        if record["domains"] != list(domains):
            raise InputError(
                f"proxy {name} has the domains in the order {', '.join(record['domains'])}, the "
                f"mixture in the order {', '.join(domains)}: give both the same order"
            )
        last = folder / "checkpoints" / f"step{record['steps']}"
        input_snapshot.take_digests([last / atomic_files.MANIFEST])
        return Proxy(name, weights_K=weights_K, state=_read_method_state(name, last))
    if weights_K is None:
        weights_K = _constant_weights(name, folder, record, domains)
    input_snapshot.take_digests([folder / "evaluations" / atomic_files.MANIFEST])
    place = (name, folder / "evaluations", record["steps"], domains)
    losses = _losses_of_evaluation(*place, "search_losses")
    loss_K = np.array([math.nan if loss is None else loss for loss in losses])
    token_loss = None
    if reads == "predictions" and weights_K is not None and weights_K.max() == 1:
        token_loss = [np.array(nll) for nll in _losses_of_evaluation(*place, "token_losses")]
    return Proxy(name, weights_K=weights_K, loss_K=loss_K, token_loss=token_loss)


def _constant_weights(
    name: str, folder: Path, manifest: Mapping[str, Any], domains: tuple[str, ...]
) -> Floats | None:
    """The weights that a run sampled with at every step; None where they moved, or others trained.

    A method may be static without weights in its settings: Mix, or one that trains on a mixture
    which others found.
    """
    weights, coefficients = (folder / f"{table}.parquet" for table in ("weights", "coefficients"))
    for path in (weights, coefficients):
        _refuse_changed_file(path, folder, manifest, f"run `pike pretrain` for {name} again")
    columns = pq.read_table(weights, columns=["domain", "weight"]).to_pydict()
    seen = set(zip(columns["domain"], columns["weight"], strict=True))
    if len(seen) != len(domains) or pq.read_metadata(coefficients).num_rows:
        return None
    return by_domain.shares_in_order(dict(seen), domains, name)


def _refuse_changed_file(
    path: Path, folder: Path, manifest: Mapping[str, Any], remedy: str
) -> None:
    listed = manifest["files"].get(str(path.relative_to(folder)))
    if listed is None or not path.is_file() or atomic_files.sha256(path) != listed["sha256"]:
        raise InputError(f"{path} is not the file that its manifest lists: {remedy}")


def _losses_of_evaluation(
    name: str, folder: Path, steps: int, domains: tuple[str, ...], table: str
) -> list[Any]:
    """What a table of the last step's evaluation has in its column `nll`, by domain."""
    path = folder / f"step{steps}" / f"{table}.parquet"
    again = f"run `pike evaluate` for {name} again"
    if not (folder / atomic_files.MANIFEST).is_file() or not path.is_file():
        how = "token_losses" if table == "token_losses" else "search"
        raise InputError(
            f"proxy {name} has no losses on the search split after its last step ({path}): {again} "
            f"with `{how}: true`"
        )
    record = manifests.read_manifest(folder / atomic_files.MANIFEST, "evaluate", again)
    _refuse_changed_file(path, folder, record, again)
    columns = pq.read_table(path, columns=["step", "domain", "nll"]).to_pydict()
    result = dict(zip(columns["domain"], columns["nll"], strict=True))
    missing = [d for d in domains if d not in result]
    if missing:
        raise InputError(
            f"proxy {name} was not evaluated on {', '.join(missing)}: a mixture needs the loss of "
            f"every domain; {again} with these domains"
        )
    assert set(columns["step"]) == {steps}
    return [result[d] for d in domains]


def _read_method_state(name: str, folder: Path) -> dict[str, npt.NDArray[Any]]:
    path = folder / TRAINING
    again = f"run `pike pretrain` for {name} again"
    if not path.is_file() or not (folder / atomic_files.MANIFEST).is_file():
        raise InputError(f"proxy {name} has no checkpoint of its last step ({path}): {again}")
    if manifests.read_checkpoint_manifest(folder)["sha256"].get(TRAINING) != atomic_files.sha256(
        path
    ):
        raise InputError(f"{path} is damaged: its checksum is not its manifest's; {again}")
    return {
        key.removeprefix(METHOD): value
        for key, value in load_file(path).items()
        if key.startswith(METHOD)
    }
