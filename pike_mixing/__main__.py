"""The command line of the library: `python -m pike_mixing fit`, `python -m pike_mixing methods`."""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from pike_mixing import METHODS, registry
from pike_mixing.errors import InputError
from pike_mixing.finders import FINDERS, table
from pike_mixing.finders import fit as fitting
from pike_mixing.finders import registry as finder_registry
from pike_mixing.finders.interface import RefittableFinder, Swarm
from pike_mixing.settings_text import lines_of, wrapped

MISTAKE = 2
"""Exit code of a mistake of the user's."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the process's exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        print(methods(parsed.rule) if parsed.command == "methods" else fitted(parsed))
    except InputError as error:
        print(f"pike_mixing {parsed.command}: {error}", file=sys.stderr)
        return MISTAKE
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pike_mixing", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("methods", help="list the rules with their settings")
    command.add_argument("rule", nargs="?", help="one of them, or a finder")
    command = commands.add_parser(
        "fit", help="a mixture from a table of proxy runs", description=table.__doc__
    )
    finders = [n for n in FINDERS if n not in ("average", "mde")]
    command.add_argument("finder", help=f"{', '.join(finders)}")
    command.add_argument("table", type=Path, help="CSV or Parquet: a row for each run")
    about = "losses to lower, with their weights in the mean: --target code prose=2"
    command.add_argument("--target", nargs="+", required=True, metavar="LOSS[=WEIGHT]", help=about)
    about = "a setting of the finder: --set samples=20000"
    command.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help=about)
    command.add_argument("--weight-prefix", default="weight/", help="default: weight/")
    command.add_argument("--loss-prefix", default="loss/", help="default: loss/")
    about = "tables drawn from the rows for the uncertainty (default: 100)"
    command.add_argument("--resamples", type=int, default=100, help=about)
    command.add_argument("--seed", type=int, default=0, help="of the draws (default: 0)")
    command.add_argument("--format", choices=("text", "json"), default="text")
    return parser


def fitted(arguments: argparse.Namespace) -> str:
    """The mixture that a finder finds for a table.

    Raises:
        InputError: wrong options, or a table from which nothing can be found.
    """
    if arguments.resamples < 0 or arguments.seed < 0:
        raise InputError("--resamples and --seed: must not be negative")
    reads = (
        finder_registry.kind(arguments.finder).reads if arguments.finder in FINDERS else "losses"
    )
    if reads != "losses":
        raise InputError(f"the finder {arguments.finder!r} reads the {reads} of a run, not a table")
    target = {
        name.removeprefix(arguments.loss_prefix): weight
        for name, weight in _pairs(arguments.target, "--target", 1.0).items()
    }
    settings = {"target": target} | _pairs(arguments.set, "--set", None)
    finder = cast(RefittableFinder, finder_registry.build(arguments.finder, settings, "--set"))
    swarm = table.read(
        arguments.table, list(target), weight=arguments.weight_prefix, loss=arguments.loss_prefix
    )
    fit = fitting.fit(finder, swarm, resamples=arguments.resamples, seed=arguments.seed)
    return (
        _json(arguments, swarm, fit) if arguments.format == "json" else _text(arguments, swarm, fit)
    )


def _pairs(texts: Sequence[str], option: str, default: float | None) -> dict[str, Any]:
    """NAME=VALUE, values as in JSON; a text that is none stands for itself."""
    result: dict[str, Any] = {}
    for text in texts:
        name, given, value = text.partition("=")
        if (not given and default is None) or not name:
            raise InputError(f"{option}: {text!r} is not NAME=VALUE")
        if name in result:
            raise InputError(f"{option}: {name!r} is given twice")
        try:
            result[name] = json.loads(value) if given else default
        except json.JSONDecodeError:
            result[name] = value
    return result


def _json(arguments: argparse.Namespace, swarm: Swarm, fit: fitting.Fit) -> str:
    def named(values_K: Any) -> dict[str, float | None]:
        values = [None if math.isnan(v) else v for v in values_K.tolist()]
        return dict(zip(swarm.domains, values, strict=True))

    return json.dumps(
        {
            "finder": arguments.finder,
            "rows": len(swarm.runs),
            "mixture": named(fit.result.weights_K),
            "standard_error": named(fit.standard_error_K),
            "low": named(fit.low_K),
            "high": named(fit.high_K),
            "resamples": fit.resamples,
            "warnings": fit.warnings,
            "diagnostics": fit.result.diagnostics,
        },
        indent=2,
        allow_nan=False,
    )


def _text(arguments: argparse.Namespace, swarm: Swarm, fit: fitting.Fit) -> str:
    width = max(len("domain"), *map(len, swarm.domains))
    lines = [f"{arguments.finder}: {len(swarm.runs)} rows, {len(swarm.domains)} domains", ""]
    lines.append(f"{'domain':<{width}}  weight   error     5 %    95 %")
    columns = (fit.result.weights_K, fit.standard_error_K, fit.low_K, fit.high_K)
    for name, *values in zip(swarm.domains, *columns, strict=True):
        lines.append(f"{name:<{width}}" + "".join(f"  {value:6.4f}" for value in values))
    lines += ["", f"error, 5 % and 95 %: of {fit.resamples} tables drawn from the rows"]
    said = {
        "held_out_spearman": "rank correlation on held-out rows",
        "held_out_r_squared": "R2 on held-out rows",
        "predicted_loss": "predicted loss of the mixture",
        "predicted_loss_uniform": "predicted loss of equal weights",
        "best_proxy_loss": "loss of the best row",
        "loss": "loss of the row",
    }
    diagnostics = fit.result.diagnostics
    for name, words in said.items():
        if isinstance(value := diagnostics.get(name), float):
            lines.append(f"{words}: {value:.4g}")
    return "\n".join(lines + [f"WARNING: {warning}" for warning in fit.warnings])


def methods(name: str | None = None) -> str:
    """All rules with their settings, or one rule or finder.

    Raises:
        InputError: there is none of this name.
    """
    kinds = dict(METHODS)
    if name is not None:
        kinds = {name: (finder_registry if name in FINDERS else registry).kind(name)}
    return "\n\n".join(_described(*item) for item in kinds.items())


def _described(name: str, kind: type[Any]) -> str:
    return "\n".join([name, *wrapped(kind.about, "  "), *lines_of(kind)])


if __name__ == "__main__":
    sys.exit(main())
