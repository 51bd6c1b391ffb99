"""What users type: one subcommand per stage, and what one asks of the results."""

import argparse
import math
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from pike_mixing.settings import unknown
from pipeline.planning import stages
from pipeline.runtime import accelerators, code_fingerprint, signal_handler

MOST_THREADS = 4096
"""More than any machine's; torch itself ends in a traceback far above."""


def parser() -> argparse.ArgumentParser:
    """All subcommands with their arguments."""
    return _parsers()[0]


def _parsers() -> tuple[argparse.ArgumentParser, Any]:
    """The whole parser, and the action that holds those of the subcommands."""
    top = argparse.ArgumentParser(
        prog="pike",
        description="Run and compare data-mixing methods. Each stage reads one JSON file of "
        "explicit settings, which the workflow writes under results/settings/, and files of the "
        "stages before it.",
    )
    about = "show the version and end"
    top.add_argument("--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help=about)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _data_stages(commands)
    _training_stages(commands)
    _results_stages(commands)
    _questions(commands)
    return top, commands


def chosen(words: Sequence[str]) -> dict[str, Any]:
    """The arguments that words stand for; ends the program, code 2, where they stand for none.

    Args:
        words: What was typed behind `pike`.
    """
    top, commands = _parsers()
    if not words:
        top.exit(2, top.format_help())
    if not words[0].startswith("-") and words[0] not in commands.choices:
        top.error(unknown(words[0], commands.choices, "COMMAND"))
    return vars(top.parse_args(words))


class _Version(argparse.Action):
    """Shows the version, and the commit that the code is of."""

    def __call__(self, top: argparse.ArgumentParser, *_: Any) -> None:
        try:
            version = metadata.version("pike")
        except metadata.PackageNotFoundError:
            version = "(not installed)"
        commit = code_fingerprint.commit()
        sys.stdout.write(f"pike {version}" + (f", commit {commit}\n" if commit else "\n"))
        top.exit()


def _stage(commands: Any, name: str, about: str) -> argparse.ArgumentParser:
    stage: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
    stage.set_defaults(place=stages.STAGES[name])
    return stage


def _data_stages(commands: Any) -> None:
    stage = _stage(commands, "download", "fetch a source's documents")
    _given(stage, "SETTINGS", "settings/sources/SOURCE.json")
    _path(stage, "--out", "folder to make, named like the source")
    _workers(stage, "files fetched at once, of a source that has several far away (default: 4)")
    stage = _stage(commands, "tokenizer", "take or train a SentencePiece model")
    _given(stage, "SETTINGS", "settings/tokenizers/TOKENIZER.json")
    stage.add_argument("--sources", type=_place, nargs="*", default=[], help="folders of documents")
    _path(stage, "--out", "the .model file to make")
    stage = _stage(commands, "pack", "turn documents into shards of tokens")
    _given(stage, "SETTINGS", "settings/corpora/TOKENIZER/SOURCE.json")
    _path(stage, "--documents", "the source's folder")
    _path(stage, "--tokenizer", "the .model file")
    _path(stage, "--out", "folder to make")
    _workers(stage, "threads that encode (default: as many as processors)")


def _training_stages(commands: Any) -> None:
    stage = _stage(commands, "pretrain", "train one run, or go on with it")
    _given(stage, "RUN", "run.json; everything appears beside it")
    _path(stage, "--corpora", "folder of the tokenizer's corpora, one subfolder per domain")
    stage.add_argument("--reference", type=_place, help="run whose model is the method's reference")
    stage.add_argument("--mixture", type=_place, help="found mixture that the method trains with")
    _device(stage)
    about = "processes that train the run together, each on a device: torchrun starts them"
    stage.add_argument("--processes", type=_count, default=1, metavar="N", help=about)
    about = "CPU threads, shared out among --processes (default: torch's choice)"
    stage.add_argument("--threads", type=_threads, metavar="N", help=about)
    stage.add_argument(
        "--save-on",
        choices=signal_handler.SAVES,
        default="USR1",
        help="signal that asks for a checkpoint (default: USR1); SIGTERM and SIGINT ask for one "
        "and end the run with exit code 75: the same command goes on",
    )
    about = "minutes to wait for another process that writes the run (default: 0, refused at once)"
    stage.add_argument("--wait", type=_minutes, default=0.0, metavar="MINUTES", help=about)
    stage.add_argument("--profile", action="store_true", help="show what the time went to")
    stage.add_argument(
        "--peak-flops",
        type=_positive,
        default=os.environ.get("PIKE_PEAK_FLOPS"),
        help="FLOP/s that the device can reach, for the recorded utilisation (default: "
        "PIKE_PEAK_FLOPS of the environment, else a known GPU's)",
    )
    stage.add_argument(
        "--tensorboard",
        action="store_true",
        default=_switched_on("PIKE_TENSORBOARD"),
        help="write TensorBoard's event files beside the records (default: whether the environment "
        "has PIKE_TENSORBOARD=1)",
    )
    stage.add_argument(
        "--shard",
        action="store_true",
        default=_switched_on("PIKE_SHARD"),
        help="each of several processes (torchrun) keeps only its part of weights and optimizer "
        "states (default: whether the environment has PIKE_SHARD=1)",
    )
    stage = _stage(commands, "mixture", "find a mixture from the runs of its proxies")
    _given(stage, "SETTINGS", "settings/mixtures/MIXTURE.json")
    stage.add_argument(
        "--runs", type=_place, nargs="+", required=True, help="folders of the proxies"
    )
    _path(stage, "--out", "the manifest to make")
    stage = _stage(commands, "evaluate", "evaluate a run's checkpoints")
    _given(stage, "SETTINGS", "the run's evaluation.json")
    _path(stage, "--run", "the run's folder")
    _path(stage, "--corpora", "folder of the tokenizer's corpora, one subfolder per domain")
    _path(stage, "--tokenizer", "the .model file")
    stage.add_argument("--tasks", type=_place, help="folder of the fetched downstream tasks")
    _device(stage)
    stage = _stage(commands, "probe", "compare the domains' gradients at a run's checkpoints")
    _given(stage, "SETTINGS", "the run's probe.json")
    _path(stage, "--run", "the run's folder")
    _path(stage, "--corpora", "folder of the tokenizer's corpora, one subfolder per domain")
    _device(stage)


def _results_stages(commands: Any) -> None:
    stage = _stage(commands, "theory", "check the paper's theory with numbers; reads nothing")
    stage.add_argument("--out", dest="given", type=_place, required=True, help="folder to make")
    stage = _stage(commands, "database", "gather every record into one DuckDB file")
    _given(stage, "SETTINGS", "settings/experiment.json")
    _path(stage, "--out", "the database to make")
    for kind in ("table", "figure"):
        stage = _stage(commands, kind, f"make one {kind} from the database")
        _given(stage, "SETTINGS", f"settings/{kind}s/{kind.upper()}.json")
        _path(stage, "--database", "the database to read")
        _path(stage, "--out", "one of the files to make; its siblings are made too")
    stage = _stage(commands, "report", "make the page that shows everything")
    _given(stage, "SETTINGS", "settings/experiment.json")
    _path(stage, "--database", "the database to read")
    _path(stage, "--tables", "folder of the tables")
    _path(stage, "--figures", "folder of the figures")
    _path(stage, "--out", "the page to make")


def _questions(commands: Any) -> None:
    question = commands.add_parser("methods", help="list the mixing rules, with settings and costs")
    question.set_defaults(place="pipeline.planning.method_catalogue:methods")
    question.add_argument("given", metavar="NAME", nargs="?", help="one rule (default: all)")
    question.add_argument("--format", choices=["text", "markdown"], default="text")
    question = commands.add_parser("fetch", help="fetch the data sets of downstream tasks")
    question.set_defaults(place="pipeline.tasks.fetch:fetch")
    question.add_argument(
        "given", metavar="NAME", nargs="+", help="task: arc_easy, csqa, hellaswag, piqa, ..."
    )
    question.add_argument("--out", type=_place, default=Path("results/tasks"))
    question.add_argument("--revision", help="commit to fetch instead of the pinned one")
    question.add_argument(
        "--from",
        dest="taken",
        metavar="SPLIT=FILE",
        nargs="+",
        default=[],
        help="files of the data set that are here already",
    )
    about = "run lm-evaluation-harness, to which a checkpoint is --model pike"
    # No character that begins options here: all of them are the harness's.
    question = commands.add_parser("lm-eval", help=about, add_help=False, prefix_chars="\0")
    question.set_defaults(place="pipeline.evaluation.harness:run")
    question.add_argument("given", nargs=argparse.REMAINDER)
    _plan(commands)
    _export(commands)
    _watch(commands)
    _power(commands)
    _compare(commands)
    _data_questions(commands)
    question = commands.add_parser("query", help="ask the database in SQL")
    question.set_defaults(place="pipeline.results.query:query")
    question.add_argument(
        "given", metavar="SQL", help="one SQL statement; the database is opened read-only"
    )
    question.add_argument("--database", type=_place, default=Path("results/pike.duckdb"))
    question.add_argument("--format", choices=["table", "csv", "json", "parquet"], default="table")
    question = commands.add_parser("why", help="show the chain behind an artifact")
    question.set_defaults(place="pipeline.results.why:why")
    question.add_argument(
        "given", metavar="ARTIFACT", help="a table, figure, run, checkpoint, corpus or source"
    )
    question.add_argument("--database", type=_place, default=Path("results/pike.duckdb"))


def _plan(commands: Any) -> None:
    about = "what an experiment takes before it runs: jobs, hours, memory, disk, cost"
    question = commands.add_parser("plan", help=about, description=about)
    question.set_defaults(place="pipeline.planning.cost:plan")
    question.add_argument(
        "--config", dest="given", metavar="FILE", type=_place, default=Path("config.yaml")
    )
    question.add_argument(
        "--devices",
        metavar="NAME",
        nargs="+",
        default=["cpu", "h100", "tpu-v4"],
        help=f"kinds of devices: {', '.join(accelerators.ACCELERATORS)}",
    )
    question.add_argument(
        "--prices", metavar="NAME=PRICE", nargs="+", default=[], help="of an hour of one device"
    )


def _data_questions(commands: Any) -> None:
    about = "hash documents and corpora again and name what is damaged"
    question = commands.add_parser("verify", help=about, description=about)
    question.set_defaults(place="pipeline.data.verify:verify")
    question.add_argument(
        "given",
        metavar="FOLDER",
        type=_place,
        nargs="+",
        help="documents, a corpus, or a folder of such",
    )
    _workers(question, "files hashed at once (default: as many as processors)")
    about = "describe corpora: documents, tokens, lengths, entropy, use of the vocabulary"
    question = commands.add_parser("corpus", help=about, description=about)
    question.set_defaults(place="pipeline.data.describe:corpus")
    question.add_argument(
        "given", metavar="FOLDER", type=_place, nargs="+", help="a corpus, or a folder of such"
    )
    question.add_argument("--format", choices=["table", "csv", "json"], default="table")
    question.add_argument(
        "--ngrams",
        type=_count,
        metavar="N",
        help="also the share of validation's n-grams of tokens that occur in training",
    )


def _export(commands: Any) -> None:
    about = "write a run's model as a directory that transformers loads"
    question = commands.add_parser("export", help=about, description=about)
    question.set_defaults(place="pipeline.model.export:export")
    question.add_argument("given", metavar="RUN", type=_place, help="the folder of a finished run")
    question.add_argument("--step", type=_step, help="its checkpoint (default: the last)")
    _path(question, "--out", "the directory to make")


def _watch(commands: Any) -> None:
    about = "show what runs do now: losses, weights, pace"
    question = commands.add_parser("watch", help=about, description=about)
    question.set_defaults(place="pipeline.training.watch:watch")
    question.add_argument(
        "given",
        metavar="FOLDER",
        type=_place,
        help="a run's folder, or one that holds runs: results",
    )
    question.add_argument("--every", type=_positive, default=2.0, help="seconds (default: 2)")
    question.add_argument("--once", action="store_true", help="show what there is, and end")


def _compare(commands: Any) -> None:
    about = "what differs between two databases, and what of it is significant"
    question = commands.add_parser("compare", help=about, description=about)
    question.set_defaults(place="pipeline.results.compare:compare")
    question.add_argument("given", metavar="FIRST", type=_place, help="a database")
    about = "another; differences are its values less the first's"
    question.add_argument("second", metavar="SECOND", type=_place, help=about)
    question.add_argument("--format", choices=["text", "csv", "json"], default="text")


def _power(commands: Any) -> None:
    about = "how many items, or seeds, a difference between two methods needs to be shown"
    measured = "'select task, method, discordance, seed_sd, design_effect from accuracy_tests'"
    shown = f"{about}; pike query {measured} says what was measured"
    question = commands.add_parser("power", help=about, description=shown)
    question.set_defaults(place="pipeline.results.power:power")
    question.add_argument(
        "--difference",
        dest="given",
        metavar="POINTS",
        type=_number,
        required=True,
        help="the difference in percentage points",
    )
    for name, default, about in (
        ("--accuracy", 50.0, "how often a method is right, in percent (default: 50)"),
        ("--discordance", 20.0, "percent of items on which two methods differ (default: 20)"),
        ("--seed-sd", None, "spread of the seeds' differences, in points"),
        ("--design-effect", 1.0, "variance of items that share documents over that of others"),
    ):
        question.add_argument(name, type=_number, default=default, help=about)
    question.add_argument("--power", type=_number, default=0.8, help="default: 0.8")
    question.add_argument("--level", type=_number, default=0.05, help="two-sided; default: 0.05")


def _given(stage: argparse.ArgumentParser, shown: str, about: str) -> None:
    stage.add_argument("given", metavar=shown, type=_place, help=about)


def _path(stage: argparse.ArgumentParser, name: str, about: str) -> None:
    stage.add_argument(name, type=_place, required=True, help=about)


def _switched_on(variable: str) -> bool:
    """Whether the environment switches something on: not without a value, nor by 0 or false."""
    return os.environ.get(variable, "").strip().lower() not in ("", "0", "false")


def _workers(command: argparse.ArgumentParser, about: str) -> None:
    command.add_argument("--workers", type=_count, metavar="N", help=about)


def _place(text: str) -> Path:
    """A path: not the empty text of a variable that is not set, which would be this folder."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def _number(text: str) -> float:
    try:
        # Python reads 1_0 as 10.
        number = math.nan if "_" in text else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return number


def _positive(text: str) -> float:
    number = _number(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text} must be above 0")
    return number


def _step(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _threads(text: str) -> int:
    if _count(text) > MOST_THREADS:
        raise argparse.ArgumentTypeError(f"{text} is above {MOST_THREADS:,}")
    return int(text)


def _minutes(text: str) -> float:
    number = _number(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} must be 0 or more")
    return number


def _device(stage: argparse.ArgumentParser) -> None:
    stage.add_argument("--device", default="auto", help="auto, cpu, cuda or xla (default: auto)")
