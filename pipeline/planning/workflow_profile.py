"""What a profile of the workflow sets for the jobs: read and judged before anything starts.

Snakemake takes any name as a resource, and a job just does not see one that nothing reads. So the
names that are read here, by Snakemake and by the Slurm plugin are held against what is set.
"""

import dataclasses
import difflib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from pike_mixing.errors import InputError
from pike_mixing.setting_messages import unknown_name_message
from pipeline.planning import stages, strict_yaml
from pipeline.runtime import accelerators, signal_handler
from pipeline.settings import DEVICES

TRAINS = ("pretrain", "evaluate", "probe")
"""Rules whose jobs run on an accelerator."""

TARGETS = ("all", "quick", "pdf")
"""Rules that are targets alone."""
RULES = (*stages.STAGES, "database_of_selection", *TARGETS)
"""All rules of the workflow."""

READ_FOR = {
    "accelerator": TRAINS,
    "device": TRAINS,
    "processes": ("pretrain",),
    "nodes": ("pretrain",),
    "save_on": ("pretrain",),
    "wait": ("pretrain",),
    **dict.fromkeys(("longest", "python"), tuple(r for r in RULES if r not in TARGETS)),
}
"""Resources of these rules alone."""

LEAST = {"processes": 1, "nodes": 1, "longest": 1, "wait": 0}
"""Whole numbers."""
POSITIVE = ("runtime", "mem_mb")
"""Slurm takes 0 of these for no limit at all. Snakemake reads units, such as 2h, too."""
OURS = ("tasks", "tasks_per_node", "mpi")
"""What follows from `nodes`."""
MODEL_NAME = {"gpu_model": r"[\w.]+", "gres": r"\w+(:[\w.]+)?(:\d+[TGM]?)?"}
"""What the Slurm plugin (2.8.0) takes for the names of GPUs, which it reads when it submits."""
TIME = r"(?:(?P<days>\d+)-)?(?P<first>\d+)(?::(?P<second>\d+))?(?::(?P<third>\d+))?"
"""Slurm's own forms: M, M:S, H:M:S, D-H, D-H:M and D-H:M:S."""
UNITS = {"s": 1 / 60, "m": 1, "h": 60, "d": 1440, "w": 7 * 1440}
"""Minutes of a unit, by its first letter."""
ENDLESS = ("infinite", "unlimited", "none", "n/a")
"""What `sinfo` shows of a partition without a limit, and what people write for it."""
OTHER_WORDS = {
    "partition": "write slurm_partition",
    "account": "write slurm_account",
    "extra": "write slurm_extra",
    **dict.fromkeys(("time", "timelimit", "time_limit", "walltime", "time_min"), "write longest"),
    **dict.fromkeys(
        ("gpus", "gpus_per_node", "gpus_per_task", "gpu_count", "ngpus", "num_gpus"),
        "leave it out, and set `processes` of pretrain: a training takes a GPU for each, "
        "an evaluation and a probe take one",
    ),
}
"""Words of `sbatch` and of others that neither Snakemake nor its Slurm plugin reads."""
OTHERS = ("disk_mb", "gpu", "slurm_account", "slurm_extra", "slurm_partition")
NAMES = (*READ_FOR, *POSITIVE, *OURS, *OTHERS)
CLOSE = 0.8
"""Likeness from which an unknown name is a slip of the pen; others may be a plugin's."""
READ_ELSEWHERE = ("tasks_per_gpu", "cpus_per_task", "cpus_per_gpu", "gpu_model")
"""Names of plugins that are close to others."""
DELIVERED = {
    ("default-resources", "slurm_partition"): "cpu",
    ("default-resources", "longest"): "1440",
    ("pretrain", "slurm_partition"): "gpu",
    ("pretrain", "accelerator"): "h100",
    ("pretrain", "longest"): "1440",
}
"""Values of workflow/profiles/slurm that are to be filled in, by where they stand and name."""
IMAGE_PYTHON = "/pike/.venv/bin/python"
"""The interpreter in an image of the Containerfile."""


@dataclasses.dataclass(frozen=True)
class Profile:
    """Resources that a profile sets, as texts by rule and name (set-resources)."""

    chosen: Mapping[str, Mapping[str, str]]
    threads: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Threads by rule, as texts (set-threads)."""
    defaults: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Those of all rules, as texts by name (default-resources)."""

    def value_in_set_resources(self, rule: str, name: str, default: str = "") -> str:
        """What set-resources has for a rule's resource, as text; `default` where nothing."""
        return self.chosen.get(rule, {}).get(name, default)

    def accelerator_or_cpu(self, rule: str) -> str:
        """Name of the kind of device that a rule's jobs are planned for."""
        return self.value_in_set_resources(rule, "accelerator", "cpu")

    def set_or_implied_device(self, rule: str) -> str:
        """The kind of device of a rule's jobs: as set, or what its `accelerator` is; else auto."""
        kind = self.value_in_set_resources(rule, "accelerator")
        own = accelerators.accelerator_of_name(kind).device if kind else "auto"
        return self.value_in_set_resources(rule, "device", own)

    def threads_or_zero(self, rule: str) -> int:
        """Threads that are set for a rule's jobs; 0 where none are, or an expression is."""
        given = self.threads.get(rule, "")
        return int(given) if given.isdecimal() else 0

    def time_limit_minutes(self, rule: str) -> int:
        """Minutes that a job of the rule may last at most; 0 without a limit."""
        return int(self.value_in_set_resources(rule, "longest", self.defaults.get("longest", "0")))

    def time_limit_place(self, rule: str) -> str:
        """Where the limit of a rule's jobs is set."""
        own = self.value_in_set_resources(rule, "longest")
        return f"set-resources of {rule}" if own else "default-resources"

    def explain_unfilled(self) -> str | None:
        """Which lines of Slurm's profile may still have to be filled in; None where none has."""
        own = {"default-resources": self.defaults, **self.chosen}
        if not any("slurm_partition" in values for values in own.values()):
            return None
        left = [
            f"{name}: {value} ({place})"
            for (place, name), value in DELIVERED.items()
            if own.get(place, {}).get(name) == value
        ]
        if not left:
            return None
        return (
            f"the profile's lines marked FILL IN, still unchanged: {', '.join(left)}: if they "
            "are right for your cluster, go on"
        )

    def explain_possibly_different_gpu_models(self) -> str | None:
        """That jobs of some rules may get another GPU than those of others; None where not.

        Whoever gives them a partition of their own has thought of it.
        """

        def partition_and_accelerator(rule: str) -> tuple[str, str]:
            partition = self.value_in_set_resources(rule, "slurm_partition")
            return partition, self.accelerator_or_cpu(rule)

        for name in ("gpu_model", "constraint"):
            default = self.defaults.get(name, "")
            asked = {r: self.value_in_set_resources(r, name, default) for r in TRAINS}
            chosen = [rule for rule, value in asked.items() if value]
            others = [
                rule
                for rule, value in asked.items()
                if not (value or self.value_in_set_resources(rule, "gres"))
                and partition_and_accelerator(rule) in map(partition_and_accelerator, chosen)
            ]
            if others:
                rules = " and ".join(others)
                return (
                    f"{name}: {asked[chosen[0]]} is set for {' and '.join(chosen)}, and not for "
                    f"{rules}, whose jobs may get any GPU: add it below {rules}, too"
                )
        return None


def resources_with_image_python(
    image: str, resources: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """What a profile sets, where jobs run in a container: with the interpreter of its image.

    The image is a file, or an address with a scheme such as docker://.
    """
    if "://" not in image and not Path(image).is_file():
        raise InputError(
            f"container: {image} does not exist: build it (docs/running.md, Container), or name "
            "another: PIKE_IMAGE=docker://HOST/NAME:TAG"
        )
    own = {rule: {"python": IMAGE_PYTHON} for rule in READ_FOR["python"]}
    return {rule: {**own.get(rule, {}), **resources.get(rule, {})} for rule in {**own, **resources}}


def read_profile(
    resources: Mapping[str, Mapping[str, Any]],
    defaults: Mapping[str, Any],
    threads: Mapping[str, Any] | None = None,
) -> Profile:
    """Reads and judges what a profile sets.

    Args:
        resources: Snakemake's set-resources: its values by rule and name.
        defaults: Its default-resources: its values by name.
        threads: Its set-threads: its values by rule.

    Raises:
        InputError: a rule does not exist, which Snakemake would pass over, a value is not fit, or
            nothing reads it where it is set.
    """
    threads = threads or {}
    for where, named in {"set-resources": resources, "set-threads": threads}.items():
        for rule in named:
            if rule not in RULES:
                raise InputError(unknown_name_message(rule, RULES, f"{where}: rule"))
    chosen = {
        rule: {n: _unwrapped_unquoted_text(v) for n, v in own.items()}
        for rule, own in resources.items()
    }
    for rule, values in chosen.items():
        for name, value in values.items():
            is_read_for_rule = rule in READ_FOR.get(name, (rule,))
            _check_resource(f"set-resources of {rule}: {name}", name, value, is_read_for_rule)
        _refuse_other_device(rule, values)
        _refuse_idle_gpus(rule, values)
    of_all = {name: _unwrapped_unquoted_text(value) for name, value in defaults.items()}
    if "gpu" in of_all:
        raise InputError(f"default-resources: gpu: {of_all['gpu']}: {OTHER_WORDS['gpus']}")
    for name, value in of_all.items():
        # Of what is read rule by rule, a time limit alone may be that of all.
        is_read_for_rule = name not in READ_FOR or name == "longest"
        _check_resource(f"default-resources: {name}", name, value, is_read_for_rule)
    return Profile(
        chosen, {rule: _unwrapped_unquoted_text(value) for rule, value in threads.items()}, of_all
    )


def refuse_misread_profile(path: Path) -> None:
    """Refuses what Snakemake would read as something else in the file of a profile.

    It takes each name at the margin for an option, so that a resource needs its spaces. And it
    reads YAML 1.1, where 12:00:00 is the number 43200, 0123 is 83 and `no` is False.
    """
    text = path.read_text(encoding="utf-8")
    content = strict_yaml.load_strict_yaml(text, str(path)) or {}
    for name in content:
        if name in {*NAMES, *MODEL_NAME, *READ_ELSEWHERE, *OTHER_WORDS, "constraint", "qos"}:
            raise InputError(
                f"{path}: {name}: at the margin it is no resource: put two spaces before it, "
                "below default-resources, or four, below a rule of set-resources"
            )
    read = _resources_by_place(yaml.safe_load(text) or {})
    for (section, name), value in _resources_by_place(content).items():
        place, misread = f"{path}: {section}: {name}", read[section, name]
        if value is None:
            raise InputError(f"{place}: there is no value: write one, or take the line out")
        if isinstance(misread, str) or str(misread) == str(value):
            continue
        _refuse_time_unless_whole_minutes(place, name, str(value))
        raise InputError(f"{place}: Snakemake reads {misread} here: put the value in quotes")


def _resources_by_place(content: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    """What a profile sets, by the words for its section and by name."""
    sections = {"default-resources": content.get("default-resources")}
    of_rules = content.get("set-resources")
    if isinstance(of_rules, Mapping):
        sections |= {f"set-resources of {rule}": own for rule, own in of_rules.items()}
    return {
        (section, name): value
        for section, own in sections.items()
        if isinstance(own, Mapping)
        for name, value in own.items()
    }


def _unwrapped_unquoted_text(value: Any) -> str:
    # Snakemake wraps a value; on the command line it may stand in quotes.
    return str(getattr(value, "raw", value)).strip("'\"")


def _minutes_of_time(value: str) -> int | None:
    """Whole minutes of a time as Slurm or people write it: 2-00:00:00, 48h; None of others."""
    if found := re.fullmatch(r"(\d+(?:\.\d+)?) *([smhdw])[a-z]*", value.lower(), re.ASCII):
        return max(1, int(float(found[1]) * UNITS[found[2]]))
    parts = re.fullmatch(TIME, value, re.ASCII)
    if parts is None:
        return None
    given = [int(part) for part in parts.group("first", "second", "third") if part is not None]
    if parts["days"] is None and len(given) < 3:
        given.insert(0, 0)
    hours, minutes = [*given, 0][:2]
    return max(1, int(parts["days"] or 0) * 1440 + 60 * hours + minutes)


def _refuse_time_unless_whole_minutes(place: str, name: str, value: str) -> None:
    """Refuses a time that is no whole number of minutes, with the number to write."""
    # Of `runtime`, Snakemake reads units and expressions.
    is_time = name in ("longest", "wait") or (
        name == "runtime" and re.fullmatch(TIME, value, re.ASCII)
    )
    if value.isdecimal() or not is_time:
        return
    what = f"{place}: {value} is not a whole number of minutes from {LEAST.get(name, 1)} on"
    if value.lower() in ENDLESS:
        raise InputError(f"{what}: write 43200, which is 30 days, or the most that a job may take")
    minutes = _minutes_of_time(value)
    raise InputError(what if minutes is None else f"{what}: write {minutes}")


def _check_resource(place: str, name: str, value: str, is_read_for_rule: bool) -> None:
    _refuse_time_unless_whole_minutes(place, name, value)
    if name in OTHER_WORDS:
        raise InputError(f"{place}: nothing reads it: {OTHER_WORDS[name]}")
    if name in LEAST and not (value.isdecimal() and int(value) >= LEAST[name]):
        unit = name if name in ("processes", "nodes") else "minutes"
        raise InputError(f"{place}: {value} is not a whole number of {unit} from {LEAST[name]} on")
    if name in POSITIVE and value.lstrip("-").isdecimal() and int(value) < 1:
        raise InputError(f"{place}: {value} is no limit: give 1 or more, or leave it out")
    if name in OURS:
        raise InputError(
            f"{place}: {value}: leave it out: `processes` and `nodes` of pretrain say on how many "
            "devices and nodes a run trains, and all other jobs run on one node"
        )
    pattern = MODEL_NAME.get(name)
    if pattern and not re.fullmatch(pattern, value, re.ASCII):
        raise InputError(
            f"{place}: {value}: the Slurm plugin takes letters, digits, _ and . in a GPU's name: "
            "leave it out, and choose nodes by `constraint: FEATURE` or a partition"
        )
    if name == "accelerator":
        accelerators.accelerator_of_name(value, place)
    allowed = {"device": DEVICES, "save_on": signal_handler.SAVES}.get(name)
    if allowed and value not in allowed:
        raise InputError(f"{place}: {value} is unknown: give {_join_with_or(allowed)}")
    near = difflib.get_close_matches(name, NAMES, n=1, cutoff=CLOSE)
    if near and near[0] != name and name not in READ_ELSEWHERE:
        raise InputError(f"{place}: nothing reads it: did you mean {near[0]}?")
    if not is_read_for_rule:
        rules = _join_with_or(READ_FOR[name])
        raise InputError(f"{place}: nothing reads it there: set it in set-resources of {rules}")


def _refuse_other_device(rule: str, values: Mapping[str, str]) -> None:
    """Refuses a device that leaves the accelerator idle which a job books: `auto` may take the CPU.

    The CPU has to be asked for by its name.
    """
    kind, device = values.get("accelerator"), values.get("device", "cpu")
    if not kind or device == "cpu":
        return
    own = accelerators.accelerator_of_name(kind).device
    if device != own and (device, own) != ("auto", "cpu"):
        raise InputError(
            f"set-resources of {rule}: device: {device}: jobs are planned for accelerator: {kind}, "
            f"which is {own}: leave `device` out, or name another accelerator (cpu for none)"
        )


def _refuse_idle_gpus(rule: str, values: Mapping[str, str]) -> None:
    """Refuses a number of GPUs that does not follow from the processes which use them.

    All chips of a TPU VM count as one `gpu`.
    """
    kind = values.get("accelerator", "cpu")
    place, used = f"set-resources of {rule}", int(values.get("processes", "1"))
    if "gpu" in values and accelerators.accelerator_of_name(kind).device != "xla":
        raise InputError(f"{place}: gpu: {values['gpu']}: {OTHER_WORDS['gpus']}")
    asked = re.fullmatch(r"gpu(?::[\w.]+)??:(\d+)", values.get("gres", ""), re.ASCII)
    if asked and int(asked[1]) > used and values.get("nodes", "1") == "1":
        raise InputError(
            f"{place}: gres: {values['gres']}: a job uses {used} of them: {OTHER_WORDS['gpus']}"
        )


def _join_with_or(names: Collection[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
