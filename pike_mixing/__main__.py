"""The command line of the library: rules, and tools for mixtures from proxy runs."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pike_mixing import METHODS, bench, delivered, method_registry
from pike_mixing.comparison import command as comparison
from pike_mixing.errors import InputError
from pike_mixing.finders import (
    FINDERS,
    build_finder,
    design_commands,
    fit_command,
    schedule_finder,
    swarm_table,
)
from pike_mixing.mixtures import explore, export, trial
from pike_mixing.mixtures.trainer_formats import FORMATS
from pike_mixing.parser import ListExtendingParser
from pike_mixing.setting_fields import setting_lines, wrap_text
from pike_mixing.setting_messages import unknown_name_message
from pike_mixing.swarms import catalogue
from pike_mixing.swarms.fetch import download_swarm

MISTAKE = 2
"""Exit code of a mistake of the user's."""
EXAMPLES = {
    "try": "",
    "methods": "pike",
    "fit": "mixing-law swarm.csv --target code prose --save law.json",
    "predict": "law.json --mixture code=0.3 prose=0.7",
    "explore": "law.json -o mixture.html",
    "export": "megatron-lm --mixture code=0.3 prose=0.7 --path '*=/data/*'",
    "delivered": "steps.jsonl --plan code=0.3 prose=0.7",
    "bench": "scheffe my_method.py",
    "design": "swarm.csv --target code --kind informative --count 8",
    "stages": "losses.csv --target code prose --stages 2",
    "reuse": "--old code=0.5 prose=0.3 web=0.2 --changed web",
    "swarms": "",
    "compare": "scores.csv --models ours theirs --higher",
    "noise": "recorded --models installed/nano/mix",
}
"""By command: the words behind it in its help."""
OF_PIKE = {
    *("advise", "article", "claims", "corpus", "crate", "database", "domains", "download"),
    *("evaluate", "fetch", "figure", "mixture", "pack", "plan", "pretrain", "probe", "query"),
    *("record", "registered", "report", "restore", "scenarios", "table", "tables", "theory"),
    *("tokenizer", "track", "verify", "watch", "why"),
}
"""Commands that `pike` has and this command line has not."""
TABLE_FINDERS = [name for name in FINDERS if name not in ("average", "mde")]
ABOUT_TABLE = "CSV or Parquet: a row for each run; or the name of a swarm in the package: regmix"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code: `MISTAKE` after an InputError, which is printed."""
    if "" not in sys.path:
        # A rule of the user's own is found where the command is given, as `pike` finds it.
        sys.path.append("")
    words = sys.argv[1:] if arguments is None else arguments
    if words and (problem := _unknown_command_message(words[0])):
        print(f"pike-mixing: {problem}", file=sys.stderr)
        return MISTAKE
    parsed = _build_parser().parse_args(words)
    command: Callable[[argparse.Namespace], str | tuple[str, int]] = parsed.run
    code = 0
    try:
        said = command(parsed)
        if isinstance(said, tuple):
            said, code = said
        print(said, flush=True)
    except BrokenPipeError:
        # Whoever reads has enough; what is still to be written goes nowhere, without a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except InputError as error:
        print(f"pike-mixing {parsed.command}: {error}", file=sys.stderr)
        return MISTAKE
    return code


def _unknown_command_message(word: str) -> str | None:
    """What to type where a word that is no command names something else; None where it does not."""
    if word in OF_PIKE:
        return (
            f"{word!r} is a command of `pike`, which `make setup` puts into the clone: type: "
            f".venv/bin/pike {word}"
        )
    for names, command in ((FORMATS, "export"), (TABLE_FINDERS, "fit"), (METHODS, "methods")):
        if word in names and word not in EXAMPLES:
            return f"{word!r} is no command: type: pike-mixing {command} {word}"
    known = word in EXAMPLES or word.startswith("-")
    return None if known else unknown_name_message(word, EXAMPLES, "COMMAND")


def _build_parser() -> argparse.ArgumentParser:
    parser = ListExtendingParser(prog="pike-mixing", description=__doc__)
    commands_ = parser.add_subparsers(dest="command", required=True)

    def command(name: str, run: Callable[[argparse.Namespace], str], about: str) -> Any:
        made = commands_.add_parser(name, help=about, description=about)
        made.set_defaults(run=run)
        return made

    trial.add_command(commands_)
    rules = command("methods", methods_text, "list the rules with their settings")
    rules.add_argument("rule", nargs="?", help="one of them, or a finder")
    _add_arguments_of_fit(
        command(
            "fit", fit_command.fit_save_and_describe_targets, "a mixture from a table of proxy runs"
        )
    )
    saved = command(
        "predict", fit_command.predicted_loss_text, "the loss of a mixture, by a saved predictor"
    )
    saved.add_argument("predictor", type=Path, help="a file that `fit --save` wrote")
    saved.add_argument("--mixture", nargs="+", required=True, metavar="DOMAIN=WEIGHT")
    saved.add_argument("--format", choices=("text", "json"), default="text")
    explore.add_command(commands_)
    export.add_command(commands_)
    delivered.add_command(commands_)
    bench.add_command(commands_)
    _add_arguments_of_design(
        command(
            "design",
            design_commands.proposed_csv_with_stderr_notes,
            "the next mixtures to train, as CSV",
        )
    )
    _add_arguments_of_stages(
        command("stages", design_commands.schedule_json, "a schedule from losses over steps")
    )
    about = "a mixture's ratios where domains come and go"
    kept = command("reuse", design_commands.kept_or_expanded_mixture_json, about)
    kept.add_argument("--old", nargs="+", required=True, metavar="DOMAIN=WEIGHT")
    about = "domains of the old mixture that are removed, revised or split"
    kept.add_argument("--changed", nargs="*", default=[], metavar="DOMAIN", help=about)
    about = "mixture of the virtual domain, which stands for all that stay, and of the others"
    kept.add_argument("--new", nargs="+", default=[], metavar="DOMAIN=WEIGHT", help=about)
    kept.add_argument("--virtual", default="old", help="name of the virtual domain (default: old)")
    tables = command(
        "swarms", list_or_fetch_swarms, "list the public tables of proxy runs, or fetch one"
    )
    tables.add_argument("name", nargs="?", help="the one to fetch")
    tables.add_argument("--to", type=Path, default=Path(), help="folder (default: this one)")
    about = "address of the repository's files elsewhere: file:///folder"
    tables.add_argument("--from", dest="base", help=about)
    comparison.add_commands(commands_)
    for name, words in EXAMPLES.items():
        commands_.choices[name].epilog = f"Example: pike-mixing {name} {words}".rstrip()
    return parser


def _add_reading_and_fitting_options(command: Any) -> None:
    about = "the second file of a pair in Olmix's form, whose first is the table: losses by run"
    command.add_argument("--metrics", type=Path, help=about)
    about = "only rows with these values: --where parameters=1e6 run=1..64"
    command.add_argument("--where", nargs="+", default=[], metavar="COLUMN=VALUE", help=about)
    about = "shares of the run of its phases; columns are weight/0/<domain>, weight/1/<domain>"
    command.add_argument(
        "--phases", nargs="+", type=float, default=[1.0], metavar="SHARE", help=about
    )
    about = (
        "names of the columns of weights, a * for the domain's (default: weight/*; of a pair of "
    )
    about += "files whose first has none of these, all its columns)"
    command.add_argument("--weight-columns", metavar="NAME", help=about)
    about = "the same of the columns of losses (default: loss/*, or all of the pair's second file)"
    command.add_argument("--loss-columns", metavar="NAME", help=about)
    about = "columns of sizes with other names: --size-columns parameters=model_size tokens=seen"
    command.add_argument("--size-columns", nargs="+", default=[], metavar="SIZE=NAME", help=about)
    about = "tokens of each domain's text, where the table has no columns available/<domain>, and "
    about += "for the training that the mixture is for: --available code=1e9 prose=4e9"
    command.add_argument("--available", nargs="+", default=[], metavar="DOMAIN=TOKENS", help=about)
    about = "tokens that this training reads (default: as many as the runs)"
    command.add_argument("--budget", type=float, metavar="TOKENS", help=about)
    about = "leave out rows in which a loss of the target is missing"
    command.add_argument("--skip-unmeasured", action="store_true", help=about)
    about = "a setting of the finder: --set samples=20000"
    command.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help=about)
    command.add_argument("--seed", type=int, default=0, help="of all draws (default: 0)")


def _add_arguments_of_fit(command: Any) -> None:
    command.description = swarm_table.__doc__
    command.add_argument("finder", help=f"{', '.join(TABLE_FINDERS)}")
    command.add_argument("table", type=Path, help=ABOUT_TABLE)
    about = (
        "losses to lower, with their weights in the mean: --target code prose=2; '*' is all of "
        "them; may be repeated"
    )
    command.add_argument(
        "--target", nargs="+", action="append", required=True, metavar="LOSS[=WEIGHT]", help=about
    )
    _add_reading_and_fitting_options(command)
    about = "size to which the losses are extrapolated first: --at parameters=1e9 tokens=2.5e10"
    command.add_argument("--at", nargs="+", default=[], metavar="SIZE=NUMBER", help=about)
    about = "tables of drawn mixtures for the uncertainty (default: 100)"
    command.add_argument("--resamples", type=int, default=100, help=about)
    command.add_argument("--test", type=Path, help="a table to judge the predictions on")
    command.add_argument("--test-metrics", type=Path, help="its second file, as --metrics")
    about = "only its rows with these values"
    command.add_argument("--test-where", nargs="+", default=[], metavar="COLUMN=VALUE", help=about)
    command.add_argument("--save", type=Path, help="JSON file to keep the predictor in")
    command.add_argument("--format", choices=("text", "json"), default="text")


def _add_arguments_of_stages(command: Any) -> None:
    command.description = schedule_finder.__doc__
    about = "CSV or Parquet: a row for each run and step, with the weights since the row before"
    command.add_argument("table", type=Path, help=about)
    command.add_argument("--target", nargs="+", required=True, metavar="LOSS[=WEIGHT]")
    command.add_argument("--stages", type=int, default=4, help="of the schedule (default: 4)")
    command.add_argument("--eta", type=float, default=1.0, help="Aioli's (default: 1)")
    about = "the column that names a row's run (default: run); its step is `tokens`"
    command.add_argument("--run-column", default="run", metavar="NAME", help=about)
    _add_reading_and_fitting_options(command)


def _add_arguments_of_design(command: Any) -> None:
    command.add_argument("table", type=Path, nargs="?", help=f"what is there: {ABOUT_TABLE}")
    about = "names, where there is no table yet"
    command.add_argument("--domains", nargs="+", default=[], metavar="DOMAIN", help=about)
    command.add_argument("--count", type=int, required=True, help="how many mixtures")
    kinds = ("dirichlet", "d-optimal", "informative")
    about = "drawn at random; for the whole law; for the place of the optimum (default: d-optimal)"
    command.add_argument("--kind", choices=kinds, default="d-optimal", help=about)
    command.add_argument("--target", nargs="+", metavar="LOSS[=WEIGHT]", help="as for fit")
    command.add_argument("--finder", default="mixing-law", help="default: mixing-law")
    about = "largest weights: --cap wiki=0.1"
    command.add_argument("--cap", nargs="+", default=[], metavar="DOMAIN=WEIGHT", help=about)
    about = "mean of the mixtures that are drawn; equal when absent"
    command.add_argument("--prior", nargs="+", default=[], metavar="DOMAIN=WEIGHT", help=about)
    about = "of the Dirichlet distribution; 1 draws evenly (default: 1)"
    command.add_argument("--concentration", type=float, default=1.0, help=about)
    _add_reading_and_fitting_options(command)


def methods_text(arguments: argparse.Namespace) -> str:
    """All rules with their settings, or one rule or finder."""
    kinds, name = dict(METHODS), arguments.rule
    if name is not None:
        find = build_finder.finder_class if name in FINDERS else method_registry.rule_class
        kinds = {name: find(name)}
    return "\n\n".join(
        "\n".join([name, *wrap_text(kind.about, "  "), *setting_lines(kind)])
        for name, kind in kinds.items()
    )


def list_or_fetch_swarms(arguments: argparse.Namespace) -> str:
    """The public swarms, or where a fetched one lies."""
    if arguments.name is not None:
        return str(download_swarm(arguments.name, arguments.to, arguments.base))
    lines = []
    for name, swarm in catalogue.TABLES.items():
        place = "in the package" if name in catalogue.PACKAGED else "to fetch"
        lines += [f"{name} ({place}, {swarm.licence})", *wrap_text(swarm.about, "  ")]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
