"""What users type: each command declared once, stages of the workflow and questions to them."""

import argparse
import math
import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing import __version__
from pike_mixing.parser import ListExtendingParser
from pike_mixing.setting_messages import unknown_name_message
from pipeline.runtime import accelerators, programs, signal_handler


def parse_nonempty_path(text: str) -> Path:
    """A path: not the empty text of a variable that is not set, which would be this folder."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def number_parser(least: float = -math.inf) -> Callable[[str], float]:
    """Reads a number from `least` on."""

    def read(text: str) -> float:
        try:
            # Python reads 1_0 as 10.
            number = math.nan if "_" in text else float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number")
        if number < least:
            raise argparse.ArgumentTypeError(f"{text} must be {least:g} or more")
        return number

    return read


def integer_parser(least: int, most: float = math.inf) -> Callable[[str], int]:
    """Reads a whole number of these bounds."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
        if int(text) > most:
            raise argparse.ArgumentTypeError(f"{text} is above {most:,}")
        return int(text)

    return read


MOST_THREADS = 4096  # More than any machine's; torch itself ends in a traceback far above.

GROUPS = {
    "run": "train and evaluate (`make run` does all of it)",
    "look": "at plans, runs and results",
    "check": "data and numbers",
    "plumbing": "what the workflow calls, file by file",
}
"""Kinds of commands, in the order of the help."""

FIRST = (
    ("make restore", "our results: database, tables, report in restored/, no training"),
    (".venv/bin/pike tables", "tables and figures, and what each shows"),
    (".venv/bin/pike claims", "the paper's claims, with our number and verdict"),
    (".venv/bin/pike why table/table2 --row pike", "the runs behind a row of a table"),
    (".venv/bin/pike plan --config config/config.yaml", "what an experiment would take"),
    ("make run CONFIG=config/config.yaml", "the experiment itself; then `.venv/bin/pike advise`"),
)
"""What `pike` alone prints: commands of a first visit."""
EXAMPLES = {
    "pretrain": "results/runs/installed/nano/mix/seed220/run.json --corpora results/corpora/text",
    "fetch": "arc_easy hellaswag",
    "export": "results/runs/installed/nano/mix/seed220 --out exported",
    "scenarios": "workflow/registered/nano-two.yaml --out drawn.yaml",
    "restore": "recorded --only table2",
    "domains": "'texts/**/*.jsonl.gz' --clusters 8 --out texts/clusters",
    "methods": "pike",
    "plan": "results/tables/table2.md --devices h100",
    "registered": "workflow/registered/nano-two.yaml",
    "watch": "results",
    "track": "results --to tensorboard",
    "query": "'select method, seed, steps from runs'",
    "claims": "",
    "tables": "",
    "advise": "results/pike.duckdb --format python",
    "why": "table/table2 --row pike",
    "crate": "results --out crate",
    "record": "results --out records",
    "corpus": "results/corpora",
    "verify": "results",
    "theory": "--out theory",
}
"""By command: the words behind it in its help; the workflow gives those of the plumbing."""

Argument = tuple[str, str, dict[str, Any]]
"""Name and help of an argument, and what else `add_argument` is given."""


class Command(NamedTuple):
    """One subcommand."""

    group: str
    """One of `GROUPS`."""
    name: str
    about: str
    """What it does, for the list of commands."""
    arguments: Sequence[Argument]
    place: str
    """The function that does it, as module:function; empty: that of the stage of its name."""


def _command(group: str, name: str, about: str, *arguments: Argument, by: str = "") -> Command:
    return Command(group, name, about, arguments, by)


def parse_arguments(words: Sequence[str]) -> dict[str, Any]:
    """The arguments of the words behind `pike`; ends the program, code 2, where they make none."""
    top, known = build_parsers()
    if "_ARGCOMPLETE" in os.environ:  # The shell asks what may follow.
        import argcomplete

        argcomplete.autocomplete(top)
    if not words:
        lines = [f"  {command:<50}{about}" for command, about in FIRST]
        lines = [
            "A first visit:",
            *lines,
            f"`{programs.program_command('pike')} --help` lists all commands.",
        ]
        top.exit(2, "\n".join(lines) + "\n")
    if not words[0].startswith("-") and words[0] not in known:
        top.error(
            _hint_at_library(words, known) or unknown_name_message(words[0], known, "COMMAND")
        )
    if words[0] == "export" and (hint := _hint_at_library(words, known)):
        known["export"].error(hint)
    values, rest = top.parse_known_args(words)
    if rest:
        own, word = known[values.command], rest[0].partition("=")[0]
        options = [name for action in own._actions for name in action.option_strings]
        told = (
            unknown_name_message(word, options, "option")
            if word.startswith("-")
            else f"{word} is too much"
        )
        typed = [*map(str, [vars(values).get("given"), *rest])]
        bare = not any(" " in one or one.endswith(".duckdb") for one in typed)
        if values.command == "query" and not word.startswith("-") and bare:
            told = f"put the SQL in quotes: {programs.program_command('pike')} query "
            told += shlex.quote(" ".join(typed))
        lists = [a.metavar for a in own._actions if not a.option_strings and a.nargs in ("*", "+")]
        told += "".join(f": type every {name} in one place" for name in lists)
        if "--database" in options and (named := [one for one in words if one.endswith(".duckdb")]):
            told += f": type a database as --database {named[0]}"
        own.error(told)
    return vars(values)


def _hint_at_library(words: Sequence[str], known: Collection[str]) -> str | None:
    """What to type where the words are those of a command of `pike-mixing`; None: they are not.

    Both programs have a command `export`: that of `pike-mixing` takes a trainer's name.
    """
    # No command that is typed right waits for it.
    from pike_mixing import __main__ as library
    from pike_mixing.mixtures import trainer_formats

    exports = any(word in (*trainer_formats.FORMATS, "--mixture") for word in words[1:])
    if words[0] not in library.EXAMPLES or (words[0] in known and not exports):
        return None
    command = f"{programs.program_command('pike-mixing')} {shlex.join(words)}"
    what = "with a trainer's name or a mixture" if words[0] in known else ""
    return " ".join(
        filter(None, [f"{words[0]!r}", what, f"is a command of pike-mixing: {command}"])
    )


def cache_validators_and_versions(stage_names: Iterable[str]) -> None:
    """Does what each job of these stages begins with, once for the forks of a process."""
    from pipeline.planning import stages
    from pipeline.runtime import environment, manifests, validate_settings

    for kind in (*manifests.STAGES.values(), manifests.CHECKPOINT):
        validate_settings.warm_up_validation(kind, extra="ignore")
    environment.computing_package_versions(None)
    for name in stages.SETTINGS.keys() & stage_names:
        validate_settings.warm_up_validation(
            environment.import_attribute(stages.SETTINGS[name], name, name)
        )


def build_parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The whole parser, and those of the subcommands by name."""
    declared, pike = commands(), programs.program_command("pike")
    lists = []
    for group, about in GROUPS.items():
        lines = [f"    {c.name:<12}{c.about}" for c in declared if c.group == group]
        lists.append("\n".join([f"{group}: {about}", *lines]))
    top = ListExtendingParser(
        prog="pike",
        description="Run and compare data-mixing methods.",
        epilog="\n\n".join([*lists, f"`{pike} COMMAND --help` says more of a command."]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    about = "show the version and end"
    top.add_argument("--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help=about)
    choices = top.add_subparsers(
        dest="command", required=True, metavar="COMMAND", help="one of those below"
    )
    for command in declared:
        own = choices.add_parser(command.name, description=command.about)
        if command.name in EXAMPLES:
            own.epilog = f"Example: {pike} {command.name} {EXAMPLES[command.name]}".rstrip()
        own.set_defaults(place=command.place)
        for name, about, options in command.arguments:
            own.add_argument(name, help=about, **options)
    return top, dict(choices.choices)


class _Version(argparse.Action):
    """Shows the version, and the commit that the code is of."""

    def __call__(self, top: argparse.ArgumentParser, *_: Any) -> None:
        from pipeline.runtime import code_fingerprint

        commit = code_fingerprint.current_commit()
        sys.stdout.write(f"pike {__version__}" + (f", commit {commit}\n" if commit else "\n"))
        top.exit()


def _positional(shown: str, about: str, **how: Any) -> Argument:
    """The positional argument."""
    return "given", about, {"metavar": shown, "type": parse_nonempty_path, **how}


def _path_option(name: str, about: str, **how: Any) -> Argument:
    return name, about, {"type": parse_nonempty_path, "required": "default" not in how, **how}


def _option(name: str, about: str, **how: Any) -> Argument:
    return name, about, how


def _format(*formats: str) -> Argument:
    return _option("--format", f"default: {formats[0]}", choices=formats, default=formats[0])


def _workers(about: str) -> Argument:
    return _option("--workers", about, type=integer_parser(1), metavar="N")


def _switch_or_environment(name: str, about: str) -> Argument:
    """A switch of the command line, or of the environment: not without a value, by 0 or false."""
    variable = f"PIKE_{name[2:].upper()}"
    on = os.environ.get(variable, "").strip().lower() not in ("", "0", "false")
    about = f"{about} (default: whether the environment has {variable}=1)"
    return _option(name, about, action="store_true", default=on)


# fmt: off
def commands() -> list[Command]:
    """Every subcommand, in the order of the help."""
    settings = _positional("SETTINGS", "the stage's settings, which the workflow writes")
    about = "folder of the tokenizer's corpora, one subfolder per domain"
    corpora = _path_option("--corpora", about)
    device = _option("--device", "auto, cpu, cuda or xla (default: auto)", default="auto")
    planned = _option("--accelerator", "kind of device that the job was planned for (default: "
                      "cpu): the log names a GPU of another kind", metavar="NAME", default="cpu",
                      choices=accelerators.ACCELERATORS)
    newest = "default: that of results/ or restored/, whichever was written last"
    asked = _path_option("--database", newest, default=None)
    database = _path_option("--database", "the database to read")
    run = _path_option("--run", "the run's folder")
    pieces = _path_option("--tokenizer", "the .model file")
    out = _path_option("--out", "what to make")
    tables = _path_option("--tables", "folder of the tables")
    figures = _path_option("--figures", "folder of the figures")
    many = _positional("FOLDER", "documents, a corpus, or a folder of such", nargs="+")
    return [
        _command("run", "pretrain", "train one run, or go on with it",
            _positional("RUN", "run.json; everything appears beside it"), corpora,
            _path_option("--reference", "run whose model is the method's reference", default=None),
            _path_option("--mixture", "manifest of a found mixture, or of a grid's choice, for a "
                         "method that takes one", default=None), device, planned,
            _option("--processes", "devices that train the run together: torchrun starts a "
                    "process for each; on xla, one has all chips", default=1,
                    type=integer_parser(1), metavar="N"),
            _option("--nodes", "nodes of this Slurm job that share the processes", default=1,
                    type=integer_parser(1), metavar="N"),
            _option("--threads", "CPU threads, shared out among --processes (default: torch's "
                    "choice)", type=integer_parser(1, MOST_THREADS), metavar="N"),
            _option("--save-on", "signal that asks for a checkpoint (default: USR1); SIGTERM and "
                    "SIGINT ask for one and end the run with exit code 75: the same command goes "
                    "on", choices=signal_handler.SAVES, default="USR1"),
            _option("--wait", "minutes to wait for another process that writes the run (default: "
                    "0, refused at once)", type=number_parser(0), default=0.0, metavar="MINUTES"),
            _option("--profile", "show what the time went to", action="store_true"),
            _option("--peak-flops", "FLOP/s that the device can reach, for the recorded "
                    "utilisation (default: PIKE_PEAK_FLOPS of the environment, else a known "
                    "GPU's)", type=number_parser(1),
                    default=os.environ.get("PIKE_PEAK_FLOPS") or None),
            _switch_or_environment("--shard", "each of several processes or chips keeps only its "
                    "part of weights and optimizer states"),
            _switch_or_environment("--recompute", "compute blocks again in the backward pass, for "
                    "memory")),
        _command("plumbing", "evaluate", "evaluate a run's checkpoints",
            settings, run, corpora, pieces,
            _path_option("--tasks", "folder of the fetched downstream tasks", default=None), device,
            planned),
        _command("plumbing", "probe", "compare the domains' gradients at a run's checkpoints",
            settings, run, corpora, device, planned),
        _command("run", "fetch", "fetch the data sets of downstream tasks",
            _positional("NAME", "task: arc_easy, csqa, hellaswag, piqa, ...", nargs="+", type=str),
            _path_option("--out", "default: results/tasks", default=Path("results/tasks")),
            _option("--revision", "commit to fetch instead of the pinned one"),
            _option("--from", "files of the data set that are here already", dest="given_files",
                    metavar="SPLIT=FILE", nargs="+", default=[]),
            by="pipeline.tasks.fetch:fetch_tasks"),
        _command("run", "export", "write a run's model as a directory that transformers loads",
            _positional("RUN", "the folder of a finished run"), out,
            _option("--step", "its checkpoint (default: the last)", type=integer_parser(0)),
            by="pipeline.model.export:export_run"),
        _command("look", "methods", "list the mixing rules, with settings and costs",
            _positional("NAME", "one rule (default: all)", nargs="?", type=str),
            _format("text", "markdown", "json"),
            by="pipeline.planning.method_catalogue:describe_methods"),
        _command("look", "plan", "what an experiment takes: jobs, hours, memory, disk",
            _option("targets", "a file to make, as results/tables/table2.md: count its jobs and "
                    "those that it needs (default: all of the experiment)",
                    metavar="TARGET", nargs="*"),
            _path_option("--config", "default: config.yaml; values of a later file replace those "
                         "of an earlier one", dest="given", metavar="FILE", nargs="+", default=[]),
            _option("--devices", "kinds of devices, with commas between them (default: "
                    f"cpu,h100,tpu-v4): {', '.join(accelerators.ACCELERATORS)}; tpu-v4:4 for four "
                    "that train a run together", metavar="NAME[,NAME]", action="extend",
                    type=lambda text: text.split(","), default=[]),
            _format("text", "json"), by="pipeline.planning.cost:cost_report"),
        _command("run", "scenarios", "write the configuration of a registered benchmark",
            _positional("FILE", "the registration: workflow/registered/*.yaml"),
            _path_option("--out", "the configuration to write"),
            by="pipeline.planning.registration:write_configuration_and_summarise"),
        _command("look", "registered", "predictions of a registered benchmark beside outcomes",
            _positional("FILE", "the registration"),
            _path_option("--database", "default: where the registration's configuration has it",
                         default=None), _format("text", "json"),
            by="pipeline.results.registration_outcomes:compare_with_registration"),
        _command("look", "watch", "a table of runs: step, loss, speed, weights",
            _positional("FOLDER", "a run's folder, or one that holds runs: results"),
            _option("--every", "seconds (default: 2)", type=number_parser(0.01), default=2.0),
            _option("--once", "show what there is, and end", action="store_true"),
            _format("text", "json"), by="pipeline.training.watch:watch_runs_until_interrupted"),
        _command("look", "track", "send runs to W&B, MLflow or TensorBoard",
            _positional("FOLDER", "a run's folder, or one that holds runs: results"),
            _option("--to", "the tracker; each needs the extra of its name",
                    choices=("wandb", "mlflow", "tensorboard"), required=True),
            _path_option("--out", "folder whose subfolder of the tracker's name is made (default: "
                         "tracked)", default=Path("tracked")),
            by="pipeline.training.track:track_runs"),
        _command("look", "query", "ask the database in SQL",
            _positional("SQL", "one SQL statement; the database is opened read-only", type=str),
            asked,
            _format("table", "csv", "json", "parquet"), by="pipeline.results.query:answer_query"),
        _command("look", "claims", "the paper's claims, with our number and verdict",
            _positional("DATABASE", newest, nargs="?"),
            _option("--claim", "the name of the only one to show; default: all", metavar="NAME"),
            _format("text", "json"), by="pipeline.results.query:describe_claims"),
        _command("look", "tables", "tables and figures, and what each shows",
            _positional("RESULTS", "a results folder; " + newest, nargs="?"),
            _format("text", "json"), by="pipeline.results.query:describe_tables_and_figures"),
        _command("look", "advise", "what to train with, how sure it is, what would settle the rest",
            _positional("DATABASE", newest, nargs="?"),
            _option("--scenario", "default: all"), _option("--model", "default: all"),
            _format("text", "summary", "json", "yaml", "python", "interleave"),
            by="pipeline.results.advice:advise"),
        _command("look", "why", "show the chain behind an artifact",
            _positional("ARTIFACT", "a table, figure, run, checkpoint, corpus or source", type=str),
            asked,
            _option("--row", "of a table: its method or label, as pike or 'PiKE (uniform)'; shows "
                    "each run that the row is a mean over", metavar="ROW"),
            _format("text", "json"), by="pipeline.results.why:explain_artifact"),
        _command("look", "crate", "pack results for an archive, as a Workflow Run RO-Crate",
            _positional("RESULTS", "a results folder where all is finished"), out,
            by="pipeline.results.archive:write_crate_and_summarise"),
        _command("look", "record", "write the records of finished results as Parquet, with hashes",
            _positional("RESULTS", "a results folder where all is finished"), out,
            by="pipeline.results.archive:archive_records_and_summarise"),
        _command("run", "restore", "build database, tables, figures and report from an archive",
            _positional("ARCHIVE", "what `pike record` or `pike crate` wrote"),
            _path_option("--out", "results folder to make (default: restored)",
                         default=Path("restored")),
            _option("--only", "tables and figures (default: all, and the report)", nargs="+",
                    metavar="NAME", default=[]),
            by="pipeline.results.archive:restore_results_and_summarise"),
        _command("look", "corpus", "describe corpora: documents, tokens, lengths, entropy", many,
            _format("table", "csv", "json"), by="pipeline.data.describe:describe_corpora"),
        _command("run", "domains", "cluster documents of unknown kinds into domains",
            _positional("FILES", "files or patterns of files, as a source of kind local takes them",
                   nargs="+", type=str),
            _path_option("--out", "folder to make"),
            _option("--clusters", "how many domains", type=integer_parser(2), metavar="N",
                    required=True),
            _option("--documents", "what a document of a text file is: file, paragraphs, lines, "
                    "'2000 characters' (default: file)", default="file"),
            _option("--field", "of JSON or Parquet (default: text)", default="text"),
            _option("--seed", "of the clustering (default: 0)", type=integer_parser(0, 2**32 - 1),
                    default=0),
            by="pipeline.data.document_clusters:write_clusters"),
        _command("check", "verify", "name files that are damaged, missing or foreign", many,
            _workers("files hashed at once (default: as many as processors)"),
            _format("text", "json"), by="pipeline.planning.verify:verify_results"),
        _command("check", "theory", "check the paper's theory with numbers; reads nothing",
            _path_option("--out", "folder to make", dest="given")),
        _command("plumbing", "download", "fetch a source's documents", settings, out),
        _command("plumbing", "tokenizer", "take or train a tokenizer", settings,
            _path_option("--sources", "folders of documents", nargs="*", default=[]), out),
        _command("plumbing", "pack", "turn documents into shards of tokens", settings,
            _path_option("--documents", "the source's folder"), pieces, out,
            _workers("threads that encode (default: as many as processors)")),
        _command("plumbing", "mixture", "find a mixture from runs of its proxies", settings, out),
        _command("plumbing", "database", "gather every record into one DuckDB file", settings, out),
        *(_command("plumbing", kind, f"make one {kind} from the database", settings, database, out)
          for kind in ("table", "figure")),
        _command("plumbing", "article", "make the page of the paper's tables and figures",
            _positional("NAME", "its tables and figures that are shown", nargs="+", type=str),
            tables, figures,
            _path_option("--out", "the page to make")),
        _command("plumbing", "report", "make the pages that show everything", settings, database,
            tables, figures,
            _path_option("--out", "the first page to make; the others appear beside it",
                         dest="index_page")),
    ]
# fmt: on
