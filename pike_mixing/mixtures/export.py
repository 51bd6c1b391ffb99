"""The command `export`: a mixture or a schedule as the files that a trainer reads.

The mixture is typed in (`--mixture web=0.7 code=0.3`), or read from a JSON file: what `fit --format
json`, `fit --save`, `stages` and `pike advise --format json` write, the settings of the rules
`fixed` and `schedule`, or shares by domain.

Shapes: K domains.
"""

import argparse
import dataclasses
import glob
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pike_mixing import by_domain, foreign_json
from pike_mixing.apportion import apportion
from pike_mixing.errors import InputError, names_text, refuse
from pike_mixing.finders import fit_command, options, saved_predictors
from pike_mixing.mixtures.field_checks import text_field_problem
from pike_mixing.mixtures.trainer_formats import (
    FORMATS,
    TEXT_FILE,
    DomainSource,
    EachStage,
    Stage,
    TrainerFormat,
    render_file,
)
from pike_mixing.rules.schedule import Schedule
from pike_mixing.rules.static import Fixed, Mix
from pike_mixing.setting_messages import unknown_name_message
from pike_mixing.settings import parse_settings

OF_DATASETS = {
    *("datasets", "hf", "hugging", "huggingface", "interleave", "sfttrainer", "trainer", "trl")
}
"""Words of names that people look for, whose trainers take what `transformers` makes."""
SMALLEST = 1e-12
"""A share below this counts as 0: solvers leave such."""
MOST = 1e15
"""Steps, rows or epochs: whole numbers up to here are exact."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Shares of each stage."""

    domains: tuple[str, ...]
    starts: tuple[float, ...]
    """Part of the run at which each stage begins, the first 0."""
    shares: tuple[tuple[float, ...], ...]
    """Of each stage and domain, summing to 1."""
    warnings: tuple[str, ...] = ()

    @property
    def read_domains(self) -> list[str]:
        """Domains that have a share in any stage."""
        most_K = map(max, zip(*self.shares, strict=True))
        return [d for d, most in zip(self.domains, most_K, strict=True) if most >= SMALLEST]

    def stages(
        self,
        paths: Mapping[str, str],
        total_steps: int,
        total_rows: int,
        fields: Mapping[str, str] | None = None,
    ) -> list[Stage]:
        """First step, paths, whole rows and fields of each stage, without domains of share 0."""
        field_of = dict.fromkeys(self.domains, "text") | dict(fields or {})
        result = []
        ends = (*self.starts[1:], 1.0)
        for start, end, shares in zip(self.starts, ends, self.shares, strict=True):
            count_K = apportion(np.array(shares), round((end - start) * total_rows)).tolist()
            sources = tuple(
                DomainSource(name, paths.get(name, ""), share, count, field_of[name])
                for name, share, count in zip(self.domains, shares, count_K, strict=True)
                if share >= SMALLEST
            )
            result.append(Stage(round(start * total_steps), sources))
        return result


def add_command(subparsers: Any) -> None:
    """Adds the command `export`."""
    about = "a mixture as the files that a trainer reads"
    command = subparsers.add_parser("export", help=about, description=__doc__)
    command.set_defaults(run=export_from_options)
    about = f"{', '.join(FORMATS)}; without it they are listed"
    command.add_argument("trainer", nargs="?", help=about)
    given = command.add_mutually_exclusive_group()
    given.add_argument(
        "--mixture", nargs="+", action="extend", metavar="DOMAIN=SHARE", help="typed in"
    )
    given.add_argument("--from", dest="file", type=Path, metavar="FILE", help="a JSON file")
    about = "paths of the domains' data; '*=/data/*' gives one to each that has none"
    command.add_argument("--path", nargs="+", default=[], metavar="DOMAIN=PATH", help=about)
    about = "field of a record that holds the text (default: text), for transformers"
    command.add_argument("--field", nargs="+", default=[], metavar="DOMAIN=FIELD", help=about)
    about = "steps of the run: a schedule's stages are written in steps"
    command.add_argument("--steps", type=int, help=about)
    about = "tokens of the run, where the schedule's places or caps are in tokens"
    command.add_argument("--tokens", type=float, help=about)
    command.add_argument("--rows", type=int, help="rows of the run, for trainers without weights")
    about = "how often a domain may be read, for trainers that hold such caps"
    command.add_argument("--epochs", type=float, help=about)
    about = "folder for the files (default: they are printed)"
    command.add_argument("--out", type=Path, help=about)
    about = "replace files in the folder that differ from those of this mixture"
    command.add_argument("--force", action="store_true", help=about)


def export_from_options(arguments: argparse.Namespace) -> str:
    """The files as a text, or where they were written; remarks go to the standard error.

    Raises:
        InputError: what a trainer cannot be told, a wrong option, or a file that cannot be read or
            written.
    """
    if arguments.trainer is None:
        if problem := _options_without_trainer_problem(arguments):
            raise InputError(problem)
        return "\n".join(
            f"{name:<20}  {one.trainer}: a share of {one.counts}" for name, one in FORMATS.items()
        )
    if arguments.trainer not in FORMATS:
        raise InputError(_unknown_trainer_message(arguments.trainer))
    if arguments.mixture is None and arguments.file is None:
        raise InputError("--mixture: give shares (web=0.7 code=0.3), or a file by --from FILE")
    if arguments.mixture is not None:
        plan = plan_of_shares(options.parse_numbers(arguments.mixture, "--mixture"), "--mixture")
    else:
        plan = plan_of_file(arguments.file, arguments.steps, arguments.tokens)
    form = FORMATS[arguments.trainer]
    paths = _expand_star(arguments.path, "--path", plan)
    fields = _expand_star(arguments.field, "--field", plan)
    files, remarks = export(
        arguments.trainer,
        plan,
        paths,
        fields=fields,
        steps=arguments.steps,
        rows=arguments.rows,
        epochs=arguments.epochs,
    )
    used = {name: paths[name] for name in plan.read_domains}
    if form.has_fields:
        refuse(_field_problems(used, fields))
        remarks += _remarks_on_multiple_epochs(plan, used)
    absent = _absent_path_remarks(used)
    remarks = [f"{arguments.trainer}: shares are of: {form.counts}", *absent, *remarks]
    if form.next_step is not None:
        remarks.append(f"next: {form.next_step}")
    sys.stderr.write("\n  ".join(remarks) + "\n")
    if arguments.out is not None:
        _write_files(files, arguments.out, replace=arguments.force)
        return "\n".join(str(arguments.out / name) for name in files)
    if len(files) == 1:
        return next(iter(files.values())).rstrip("\n")
    return "\n".join(f"==> {name} <==\n{text}" for name, text in files.items()).rstrip("\n")


def _unknown_trainer_message(name: str) -> str:
    if OF_DATASETS & {*re.split(r"[-_ ]", name.lower())}:
        return (
            f"trainer: {name!r} is unknown: for Hugging Face's Trainer (transformers, TRL) type: "
            "pike-mixing export transformers"
        )
    return unknown_name_message(name, FORMATS, "trainer")


def _options_without_trainer_problem(arguments: argparse.Namespace) -> str | None:
    """What to type where options stand without a trainer; None where there are no options."""
    lists = {name: getattr(arguments, name) or [] for name in ("mixture", "path", "field")}
    others = (arguments.file, arguments.steps, arguments.tokens, arguments.rows, arguments.epochs)
    if not any(lists.values()) and {*others, arguments.out} == {None}:
        return None
    for option, words in lists.items():
        if names := [word for word in words if "=" not in word]:
            return (
                f"--{option} takes every word behind it, {names[0]!r} too: type the trainer first: "
                f"export {names[0]} --{option} ..."
            )
    return f"no trainer is named: type one behind export: {', '.join(FORMATS)}"


def _absent_path_remarks(paths: Mapping[str, str]) -> list[str]:
    """A line on the local paths that name nothing on this machine.

    A data set of Megatron is named by its .bin file without the ending. Neither addresses nor
    names of the Hub are local.
    """
    absent = [
        f"{domain}={path}"
        for domain, path in paths.items()
        if path.startswith(("/", "./", "../", "~")) or re.search(TEXT_FILE, path, re.IGNORECASE)
        if "://" not in path and not (Path(path).exists() or Path(f"{path}.bin").exists())
        # Path.glob takes no pattern of a whole path.
        if next(glob.iglob(path, recursive=True), None) is None  # noqa: PTH207
    ]
    if not absent:
        return []
    return [f"not on this machine (fine if your trainer's machine has it): {', '.join(absent)}"]


def _files_matching(pattern: str) -> list[Path]:
    """The files on this machine that a path or pattern names, by name."""
    # Path.glob takes no pattern of a whole path.
    found = map(Path, sorted(glob.iglob(pattern, recursive=True)))  # noqa: PTH207
    return [one for one in found if one.is_file()]


def _field_problems(paths: Mapping[str, str], fields: Mapping[str, str]) -> list[str]:
    """Fields that the first records of a domain's first file do not have, or without a text."""
    found = (
        text_field_problem(file, fields.get(domain), domain)
        for domain, path in paths.items()
        for file in _files_matching(path)[:1]
    )
    return [problem for problem in found if problem is not None]


def _remarks_on_multiple_epochs(plan: Plan, paths: Mapping[str, str]) -> list[str]:
    """How often domains are read until the largest ends: a line for each that is read twice.

    Nothing where the files of a domain are not here, and of a schedule.
    """
    files_of = {domain: _files_matching(path) for domain, path in paths.items()}
    size_of = {domain: sum(f.stat().st_size for f in files) for domain, files in files_of.items()}
    if len(plan.starts) > 1 or not all(size_of.values()):
        return []
    share_of = dict(zip(plan.domains, plan.shares[0], strict=True))
    longest = max(size_of[domain] / share_of[domain] for domain in paths)
    times_of = {domain: longest * share_of[domain] / size_of[domain] for domain in paths}
    endings = {file.suffix for files in files_of.values() for file in files}
    note = " (compressed ones have more text)" if endings & {".gz", ".zst", ".parquet"} else ""
    return [
        f"{domain}: read about {times:,.0f} times until the largest domain ends, by bytes of "
        f"files{note}"
        for domain, times in times_of.items()
        if times >= 2
    ]


class Export(NamedTuple):
    """What `export` makes of a plan."""

    files: dict[str, str]
    """Texts by name."""
    remarks: list[str]
    """What the trainer cannot be told, and what is left to do."""


def export(
    trainer: str,
    plan: Plan,
    paths: Mapping[str, str],
    *,
    fields: Mapping[str, str] | None = None,
    steps: int | None = None,
    rows: int | None = None,
    epochs: float | None = None,
) -> Export:
    """The files of a trainer, and what it cannot be told.

    Args:
        trainer: A name of `FORMATS`.
        plan: The mixture or schedule.
        paths: Where each domain's data is.
        fields: Which field of a record holds the text, where it is not `text`.
        steps: Of the run; needed for a schedule.
        rows: Of the run; needed by trainers without weights.
        epochs: How often a domain may be read.

    Raises:
        InputError: a domain without a path, or with one that the trainer does not read or its
            parser would take for something else; or a number that is needed and missing.
    """
    form, staged = FORMATS[trainer], len(plan.starts) > 1
    refuse(_missing_or_extreme_number_problems(form, steps, rows, epochs, is_staged=staged))
    stages = plan.stages(paths, steps or 0, rows or 0, fields)
    refuse(_empty_stage_problems(form, stages, steps, rows) or _path_problems(form, plan, paths))
    if fields and not form.has_fields:
        raise InputError(f"--field: {form.trainer} is told elsewhere which field holds the text")
    repetition = f"{float(epochs or 1):.12g}"
    remarks = [*plan.warnings, *form.notes]
    if gone := [domain for domain in plan.domains if domain not in plan.read_domains]:
        remarks.append(f"left out, as their share is 0: {', '.join(gone)}")
    if epochs is not None and not form.has_repetition:
        remarks.append(
            f"the cap of {epochs:g} epochs is not written: it has no such setting; `delivered` "
            "counts what was read"
        )
    files = {}
    if not staged:
        for name, parts in form.files.items():
            files[name] = render_file(parts, stages, repetition)
        return Export(files, remarks)
    if form.staged is not None:
        # Sources are those that any stage reads.
        every = {s.name: s for stage in reversed(stages) for s in stage.sources}
        whole = [Stage(0, tuple(every[d] for d in plan.domains if d in every))]
        for name, parts in form.staged.items():
            by_part = [(part, stages if isinstance(part, EachStage) else whole) for part in parts]
            files[name] = "".join(render_file([part], of) for part, of in by_part)
        return Export(files, remarks)
    assert steps is not None
    ends = [*(stage.start for stage in stages[1:]), steps]
    remarks.append(
        "it knows no schedule: one configuration for each stage; a loader that begins anew reads "
        "the same rows again, so give later stages other files, or count both as epochs"
    )
    for n, (stage, end) in enumerate(zip(stages, ends, strict=True), 1):
        for name, parts in form.files.items():
            files[f"stage-{n}/{name}"] = render_file(parts, [stage], repetition)
        then = "from the start" if n == 1 else f"from the checkpoint of stage-{n - 1}"
        remarks.append(
            f"stage-{n}: steps {stage.start} to {end} ({end - stage.start} steps), {then}, with "
            "the learning-rate schedule of the whole run"
        )
    return Export(files, remarks)


def _missing_or_extreme_number_problems(
    form: TrainerFormat, steps: int | None, rows: int | None, epoch_cap: float | None, *,
    is_staged: bool,
) -> list[str]:  # fmt: skip
    """Numbers that are beyond bounds, or that the trainer or a schedule needs."""
    problems = [
        f"{name}: {number:g} must be at least 1 and at most {MOST:g}"
        for name, number in (("--steps", steps), ("--rows", rows), ("--epochs", epoch_cap))
        if number is not None and not 1 <= number <= MOST
    ]
    if is_staged and steps is None:
        problems.append("--steps: give those of the run: stages are told in steps")
    if form.needs_rows and rows is None:
        problems.append(
            f"--rows: {form.trainer} has no weights, so its shares are numbers of rows: give the "
            "rows of the run"
        )
    return problems


def _path_problems(form: TrainerFormat, plan: Plan, paths: Mapping[str, str]) -> list[str]:
    """Paths that are missing, or that the trainer does not read or takes for something else."""
    problems = []
    for domain in plan.read_domains:
        if not paths.get(domain):
            problems.append(f"--path: domain {domain!r} has none: give {domain}=/its/data")
        elif form.reads is not None and (ending := _unreadable_ending(paths[domain], form.reads)):
            problems.append(
                f"--path: {domain}={paths[domain]}: {form.trainer} reads no .{ending}: "
                f"give {form.wants}"
            )
        elif form.has_fields and _is_txt_folder(Path(paths[domain])):
            # `load_dataset` would make a document of each line.
            problems.append(
                f"--path: {domain}={paths[domain]} is a folder of text files: name the files: "
                f"'{domain}={paths[domain].rstrip('/')}/*.txt'"
            )
        texts = [paths.get(domain, ""), *([domain] if form.has_unquoted_names else [])]
        marks = sorted({repr(c) for text in texts for c in text if c in form.forbidden})
        if marks:
            problems.append(
                f"{domain!r}: {form.trainer} takes {' and '.join(marks)} in a path or "
                "name for something else: rename it, or link to it by another path"
            )
    return problems


def _unreadable_ending(path: str, readable_pattern: str) -> str | None:
    """The ending of a text file, or of any file that is there, that a trainer does not read."""
    found = re.search(TEXT_FILE, path, re.IGNORECASE)
    ending = found[1] if found else Path(path).suffix[1:] if Path(path).is_file() else ""
    is_read = Path(path).is_dir() or re.fullmatch(readable_pattern, ending, re.IGNORECASE)
    return None if is_read or not ending else ending


def _is_txt_folder(path: Path) -> bool:
    """Whether a folder on this machine holds text files, and no others that a trainer reads."""
    if not path.is_dir():
        return False
    found = (re.search(TEXT_FILE, file.name, re.IGNORECASE) for file in path.iterdir())
    return {one[1].lower().partition(".")[0] for one in found if one} == {"txt"}


def _empty_stage_problems(
    form: TrainerFormat, stages: Sequence[Stage], steps: int | None, rows: int | None
) -> list[str]:
    """Stages without a step, domains without a row."""
    problems = []
    starts = [stage.start for stage in stages]
    if steps is not None and len(set(starts) | {steps}) <= len(starts):
        problems.append(
            f"--steps: of {steps} steps a stage has none (they begin at {starts}): give more "
            "steps, or leave the stage out"
        )
    if form.needs_rows and (
        none := [s.name for stage in stages for s in stage.sources if not s.rows]
    ):
        problems.append(f"--rows: of {rows} rows {none[0]!r} gets none: give more rows")
    return problems


def plan_of_shares(values: Mapping[str, float], setting: str) -> Plan:
    """A plan of one stage.

    Args:
        values: Shares by domain, in any unit.
        setting: Where they were set, for messages.

    Raises:
        InputError: a share is negative, or all are 0.
    """
    domains = tuple(values)
    shares = by_domain.shares_in_order(values, domains, setting)
    return Plan(domains, (0.0,), (tuple(shares.tolist()),))


def plan_of_rule(
    settings: Mapping[str, Any],
    place: str,
    steps: int | None = None,
    tokens: float | None = None,
    average_shares: Mapping[str, float] | None = None,
) -> Plan:
    """The plan of a rule's settings.

    Args:
        settings: With the rule's name as `rule`.
        place: Where they were set, for messages.
        steps: Of the run.
        tokens: Of the run.
        average_shares: What the rule drew on average, where that is known.

    Raises:
        InputError: weights of losses, ramps, or a rule whose weights follow signals: no file of a
            trainer says such.
    """
    rule, values = settings.get("rule"), {k: v for k, v in settings.items() if k != "rule"}
    if values.get("objective") is not None:
        raise InputError(
            f"{place}: objective: no trainer's file sets weights of losses apart from shares: "
            "train with an adapter of pike_mixing, or leave the objective out"
        )
    if rule == "fixed":
        fixed = parse_settings(Fixed, values, place)
        if fixed.weights_by_domain is None:
            raise InputError(f"{place}: mixture: give its shares as weights_by_domain")
        return plan_of_shares(fixed.weights_by_domain, place)
    if rule == "mix" and average_shares is not None:
        parse_settings(Mix, values, place)
        return plan_of_shares(dict.fromkeys(average_shares, 1.0), place)
    if rule == "schedule":
        return _plan_of_schedule(parse_settings(Schedule, values, place), place, steps, tokens)
    if average_shares is None:
        raise InputError(
            f"{place}: rule {rule!r}: its weights follow what it measures, so that no file can "
            "hold them: train with an adapter of pike_mixing, or give shares by --mixture"
        )
    told = (
        f"{rule} changed its shares during training; these are its average shares: nobody has "
        "trained with them as fixed ones"
    )
    return dataclasses.replace(plan_of_shares(average_shares, place), warnings=(told,))


def _plan_of_schedule(rule: Schedule, place: str, steps: int | None, tokens: float | None) -> Plan:
    points = rule.points
    if points is None:
        raise InputError(f"{place}: points: give the weights of each stage")
    if rule.between != "constant" and len(points) > 1:
        raise InputError(
            f"{place}: between: no trainer's file has a {rule.between} ramp: write the points of "
            "its steps with `between: constant`"
        )
    rule = dataclasses.replace(
        rule, steps=rule.steps or steps, budget_tokens=rule.budget_tokens or tokens
    )
    domains = tuple(points[0])
    if rule.steps is None and (rule.epochs is not None or max(rule.at) > 0):
        raise InputError("--steps: give those of the run: stages and caps on epochs depend on them")
    length = {"share": 1.0, "steps": rule.steps, "tokens": rule.budget_tokens}[rule.unit]
    if length is None:
        raise InputError(f"--{rule.unit}: give those of the run: the schedule's places are in them")
    state = rule.init(domains, 0)
    # Before the first point its weights hold.
    starts = [0.0, *(start / length for start in rule.at[1:])]
    if starts[-1] >= 1:
        raise InputError(
            f"{place}: at: {rule.at[-1]:g} lies behind the end of the run ({length:g})"
        )
    weighted_PxK = state["points_PxK"] * state["factor_K"]
    shares_PxK = weighted_PxK / weighted_PxK.sum(axis=1, keepdims=True)
    told = "the cap on epochs is in the shares; the trainer itself does not hold it"
    return Plan(
        domains,
        tuple(starts),
        tuple(map(tuple, shares_PxK.tolist())),
        () if rule.epochs is None else (told,),
    )


def plan_of_file(path: Path, steps: int | None = None, tokens: float | None = None) -> Plan:
    """The plan of a JSON file: see the module.

    Raises:
        InputError: it cannot be read, holds several mixtures, or none.
    """
    try:
        values = foreign_json.parse_json_or_value_error(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"--from: {path} cannot be read: {error}: check the path") from None
    try:
        return _plan_of_values(values, str(path), steps, tokens)
    except (AttributeError, LookupError, TypeError) as error:
        raise InputError(
            f"{path}: is no mixture that `export` reads ({type(error).__name__}: {error}): give "
            'shares by domain, {"web": 0.7, "code": 0.3}, or a file of `fit`, `stages` or '
            "`pike advise`"
        ) from None


def _plan_of_values(values: Any, place: str, steps: int | None, tokens: float | None) -> Plan:
    """The plan of a file's values; an error that is no InputError says that they are no mixture."""
    several = values if isinstance(values, list) else values.get("targets", [values]) \
        if isinstance(values, dict) else []  # fmt: skip
    if len(several) != 1 or not isinstance(several[0], dict):
        raise InputError(
            f"{place}: holds {len(several)} mixtures, one is needed: give `fit` one --target, or "
            "`pike advise` one --scenario and --model"
        )
    values = several[0]
    if values.get("format") == saved_predictors.FORMAT:
        phases = values["phases"]
        if len(phases) > 1:
            return plan_of_rule(
                fit_command.schedule_rule_settings(values["optimum"], phases), place, steps, tokens
            )
        return plan_of_shares(values["optimum"], place)
    if isinstance(values.get("rule"), dict):
        return plan_of_rule(values["rule"], place, steps, tokens, values["shares"])
    if "rule" in values:
        return plan_of_rule(values, place, steps, tokens)
    if "schedule" in values:
        return plan_of_rule(values["schedule"], place, steps, tokens)
    return plan_of_shares(values.get("mixture", values), place)


def _expand_star(texts: Sequence[str], option: str, plan: Plan) -> dict[str, str]:
    """Paths or fields by domain; that of `*` is all others', its own * stands for their names."""
    domains = plan.domains
    values = options.parse_text_pairs(texts, option, lambda text: f"{domains[0]}={text}")
    pattern = values.pop("*", None)
    if strangers := [name for name in values if name not in domains]:
        raise InputError(
            f"{option} names {names_text(strangers)}, but the mixture has {names_text(domains)}: "
            f"write the same names in the mixture and in {option}"
        )
    for name, value in values.items():
        if joined := [other for other in domains if f",{other}=" in value]:
            words = value.replace(f",{joined[0]}=", f" {joined[0]}=")
            raise InputError(f"{option}: separate by spaces: {option} {name}={words}")
    if pattern is None:
        return values
    return {name: pattern.replace("*", name) for name in domains} | values


def _write_files(files: Mapping[str, str], folder: Path, *, replace: bool) -> None:
    """Writes all files, or none where one is there that differs: somebody may have edited it."""
    content_of = {folder / name: text.encode() for name, text in files.items()}
    try:
        for path, content in content_of.items():
            if not replace and path.exists() and path.read_bytes() != content:
                raise InputError(
                    f"--out: {path} is there and differs from what would be written: you may have "
                    "edited it: rename it, name another folder, or add --force to replace it"
                )
        for path, content in content_of.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise InputError(f"--out: {error}: give another folder") from None
