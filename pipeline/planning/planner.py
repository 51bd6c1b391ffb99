"""From an experiment's configuration to everything that it asks for, by name.

A plan is made anew at each start of the workflow, also within each job of a cluster, so this module
imports nothing heavy and does dictionary look-ups only.
"""

import copy
import difflib
import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing.errors import InputError, refuse, shortened_repr
from pipeline.planning import (
    cross_checks,
    dependencies,
    normal_form,
    schema,
    shorthand,
    stage_settings,
    strict_yaml,
    workflow_profile,
)
from pipeline.planning.plan import Plan, Settings

YTE = "__use_yte__"
"""With it, Snakemake takes a configuration for a template, before its rules are read."""
CONFIG_SUFFIXES = (".yaml", ".yml")
"""Of configurations after the first: other names there are targets."""
SHIPPED_CONFIGS = Path("workflow", "configs")
"""Where experiments lie beside `config.yaml`."""
LETTER_BYTES = 3
"""Of UTF-8, in most alphabets of synthetic languages."""


def _remedy_for_missing_file(path: Path) -> str:
    """The shipped configuration or profile that is meant, where one is near."""
    profiles = path.parent.parent
    if path.name == "config.yaml" and profiles.name == "profiles" and profiles.is_dir():
        known = sorted(profile.parent.name for profile in profiles.glob("*/config.yaml"))
        return f"profiles are {', '.join(known)}"
    shipped = {file.stem: file for file in SHIPPED_CONFIGS.glob("*.yaml")}
    near = difflib.get_close_matches(path.stem, shipped, n=1, cutoff=0.8)
    return f"did you mean {shipped[near[0]]}?" if near else "check the path"


def read_config_file(path: Path) -> Settings:
    """A configuration file's own content."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is a folder, a pipe or a device: name a file")
        with path.open(encoding="utf-8") as file:
            text = file.read(strict_yaml.LARGEST + 1)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: {_remedy_for_missing_file(path)}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): check the path") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 ({error}): save it as UTF-8") from None
    loaded = strict_yaml.load_strict_yaml(text, str(path))
    if not isinstance(loaded, dict):
        kind = "list" if isinstance(loaded, list) else "single value"
        result = "is empty" if loaded is None else f"holds a {kind}"
        raise InputError(f"{path} {result}: a configuration is a mapping, such as config.yaml")
    if YTE in loaded:
        raise InputError(
            f"{path}: with {YTE}, Snakemake runs texts of the file as code: take it out"
        )
    return loaded


def read_expanded_config(path: Path) -> Settings:
    """The same with what it includes, and its short forms written out."""
    return shorthand.expand_shorthand(join_disjoint_includes(read_config_file(path), path))


def join_disjoint_includes(
    config: Mapping[str, Any],
    origin: Path,
    included_by: tuple[Path, ...] = (),
    load: Callable[[Path], Settings] = read_config_file,
) -> Settings:
    """A configuration with the sections of the file that it names under `include`.

    A section of names that both have holds the names of both, the included file's first. An
    include adds, and only a later file replaces. `origin` is the file, in whose folder the other's
    path begins, `load` gives a file's own content.
    """
    whole = dict(config)
    if (name := whole.pop("include", None)) is None:
        return whole
    if not isinstance(name, str):
        raise InputError(f"include: {name!r} is no path: give that of one file")
    folder = origin.parent
    path = folder / name
    if not os.path.exists(path):  # noqa: PTH110 - Path raises where a name is too long.
        raise InputError(
            f"include: {shortened_repr(str(path))} does not exist: give its path from {folder}"
        )
    if path.resolve() in included_by:
        raise InputError(f"include: {path} includes itself: take one `include` out")
    if len(included_by) > strict_yaml.DEEPEST:
        raise InputError(
            f"include: {path}: {len(included_by)} files include each other down to it: join some"
        )
    further = join_disjoint_includes(load(path), path, (*included_by, path.resolve()), load)
    twice = []
    for section in further.keys() & whole.keys():
        theirs, ours = further[section], whole[section]
        if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
            twice += [f"{section}.{name}" for name in theirs.keys() & ours.keys()]
            whole[section] = {**theirs, **ours}
        else:
            twice.append(section)
    if twice:
        names, them = ", ".join(sorted(twice)), "it" if len(twice) == 1 else "them"
        raise InputError(
            f"{names}: set in {path} and in {origin}, which includes it: a file can add to what it "
            f"includes, not replace: put {them} into a second file, whose values replace the "
            f'first\'s: make run CONFIG="{origin} second.yaml"{_hint_to_rename_entry(min(twice))}'
        )
    return further | whole


def _hint_to_rename_entry(place: str) -> str:
    """How to have an included entry with other values under a name of one's own."""
    section, _, name = place.partition(".")
    new = f"{name}-2"
    if not name or section in ("packing", "tasks", "compare", "predictions", "paper", "quick"):
        return ""  # Its names are given.
    if section == "scenarios":
        return f"; or give yours a new name, {new}: {{like: {name}, ...}}"
    result = f"; or give yours a new name, {new}"
    if section in ("evaluation", "probe", "training", "tokenizers"):
        key = section.removesuffix("s")
        result += f", for a scenario of yours: {{like: OLD, {key}: {new}}}"
    return result


def read_config_options(parsed: Mapping[str, Any], words: Sequence[str] | None) -> Settings:
    """What `--config` sets, with numbers in the place of texts that look like them.

    Snakemake makes texts of all that stands within a mapping or a list. `parsed` are the options as
    it reads them, `words` as they were given: `training={text: {steps: 8}}`.
    """
    result: Settings = {}
    for name, _, text in (word.partition("=") for word in words or ()):
        if isinstance(parsed[name], Mapping | list):
            result = _merge_deeply(
                result, {name: strict_yaml.load_strict_yaml(text, f"--config {name}")}
            )
    return {**parsed, **result}


def _file_that_sets_results(path: Path, load: Callable[[Path], Settings]) -> Path:
    """The file that sets `results`: this one, or one that it includes."""
    config = load(path)
    if "results" in config or config.get("include") is None:
        return path
    return _file_that_sets_results(path.parent / config["include"], load)


class PlanAndOwnConfig(NamedTuple):
    """What configuration files ask for."""

    plan: Plan
    own_config: Mapping[str, Any]
    """What the files say themselves, without what they include."""


def plan_config_files(files: Sequence[Path], options: Mapping[str, Any]) -> PlanAndOwnConfig:
    """The plan of a workflow.

    A later file's values replace an earlier one's, and `options`, which `--config` sets, replace
    both. Snakemake's own reading of the files, as YAML 1.1, is not used.
    """
    load = functools.cache(read_config_file)  # Parsing takes up to 60 ms.
    config: Settings = {}
    whole: Settings = {}
    for number, path in enumerate(files):
        if number and path.suffix not in CONFIG_SUFFIXES:
            raise InputError(
                f"{path} is no configuration: its name does not end in "
                f"{' or '.join(CONFIG_SUFFIXES)}: put targets in front of --configfile"
            )
        config = _merge_deeply(config, load(path))
        whole = _merge_deeply(whole, join_disjoint_includes(load(path), path, load=load))
    config = _merge_deeply(config, options)
    whole = _merge_deeply(
        whole, join_disjoint_includes(options, files[0].parent / "--config", load=load)
    )
    owners = [_file_that_sets_results(path, load) for path in files]
    named = " + ".join(map(str, files)), " + ".join(map(os.path.relpath, owners))
    return PlanAndOwnConfig(plan(shorthand.expand_shorthand(whole), *named, files, options), config)


def _merge_deeply(config: Mapping[str, Any], overrides: Mapping[str, Any]) -> Settings:
    """The configuration with another's values in their places, as Snakemake merges them."""
    within = {
        name: _merge_deeply(config[name], value)
        for name, value in overrides.items()
        if isinstance(value, Mapping) and isinstance(config.get(name), Mapping)
    }
    return {**config, **overrides, **within}


def plan(
    config: Mapping[str, Any],
    origin: str,
    owner: str | None = None,
    files: Sequence[Path] = (),
    options: Mapping[str, Any] | None = None,
) -> Plan:
    """Expands a merged configuration, after checking all of it.

    Args:
        config: The configuration.
        origin: Where it was set, for messages: "config.yaml".
        owner: The file that sets `results`, where that is another.
        files: Those that set it, whose anchors messages name.
        options: What `--config` sets of it.

    Raises:
        InputError: every mistake in it, in one message, each with its path and a way out.
    """
    experiment = schema.read_experiment(config, origin)
    refuse(cross_checks.consistency_problems(config, experiment, origin, files))
    own = normal_form.normalise_config(experiment, [*config])
    requested = dependencies.requested_runs(own)
    every = dependencies.wanted_then_required_runs(own, requested)
    of_runs = ((run, dependencies.mixture_or_grid_of_run(own, run)) for run in every)
    found_of = {run: found for run, found in of_runs if found}
    runs = {str(run): stage_settings.run_settings(own, run) for run in every}
    mixtures = {str(m): stage_settings.mixture_settings(own, m, runs) for m in found_of.values()}
    searched = {
        proxy
        for found in mixtures.values()
        if not stage_settings.needs_method_states(found["finder"])
        for proxy in found["proxies"]
    }
    wanted = set(requested)
    evaluations = {
        str(run): stage_settings.evaluation_settings(
            own, run, requested=run in wanted, searched=str(run) in searched
        )
        for run in dependencies.runs_to_evaluate(own, every)
    }
    return Plan(
        config=own,
        origin=origin,
        owner=owner or origin,
        files=tuple(map(str, files)) or (origin,),
        options=copy.deepcopy(dict(options or {})),
        results=str(Path(own["results"])),
        sources=stage_settings.with_sorted_keys(own["sources"]),
        tokenizers={
            name: stage_settings.tokenizer_settings_without_sources(own, name)
            for name in own["tokenizers"]
        },
        tokenizer_sources={
            name: values.get("sources", []) for name, values in own["tokenizers"].items()
        },
        runs=runs,
        requested=tuple(map(str, requested)),
        references={
            str(run): str(r) for run in every if (r := dependencies.reference_run(own, run))
        },
        found={str(run): str(mixture) for run, mixture in found_of.items()},
        mixtures=mixtures,
        evaluations=evaluations,
        probes={
            str(run): probed
            for run in requested
            if (probed := stage_settings.probe_settings(own, run)) is not None
        },
        tasks={
            name: stage_settings.with_sorted_keys(own.get("tasks", {}).get(name, {}))
            for name in dict.fromkeys(
                [
                    *(one["task"] for e in evaluations.values() for one in e.get("tasks", [])),
                    *stage_settings.decontamination_tasks_by_path(own).values(),
                ]
            )
        },
        tables=stage_settings.name_and_selection_by_output(own["tables"]),
        figures=stage_settings.name_and_selection_by_output(own["figures"]),
    )


def text_bytes_in_settings(source: Settings) -> int | None:
    """Bytes of a source's text, where its settings say so."""
    size: int | None = source.get("bytes")
    # Of installed text `documents` says how files are cut.
    if size is None and source["kind"] == "synthetic":
        size = LETTER_BYTES * source["documents"] * source["length"]
    return size


def packing_processes(source: Settings) -> int:
    """How many processes are worth packing a source: one for each 64 MiB of text, 16 at most."""
    size = text_bytes_in_settings(source)
    if size is None and source["kind"] == "local":
        return 4  # Nobody has looked at the files yet.
    return min(max((size or 0) // 2**26, 1), 16)


if __name__ == "__main__":
    # For `make`, before Snakemake reads the files: aliases that it writes out may take all memory,
    # and of a profile it takes each name at the margin for an option. The profile comes first.
    place = "PROFILE"
    try:
        read_config_file(Path(sys.argv[1]))
        workflow_profile.refuse_misread_profile(Path(sys.argv[1]))
        place = "CONFIG"
        for name in sys.argv[2:]:
            read_config_file(Path(name))
    except InputError as mistake:
        sys.exit(f"{place}: {mistake}")
