"""The command `explore`: a saved predictor as one HTML file that needs no network.

The page has a slider for each domain, predicted losses with bands, epochs for a budget and an
inventory, the mixture as each trainer's files, and guesses with their hash.
"""

import argparse
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError, refuse
from pike_mixing.finders import exposure_law, gaussian_process, options, saved_predictors, scheffe
from pike_mixing.finders.convex_program import ConvexProgram
from pike_mixing.finders.regmix import Trees
from pike_mixing.finders.surface_finder import Surface
from pike_mixing.mixtures.trainer_formats import FORMATS, TEXT_FILE, EachDomain, TrainerFormat

TEMPLATE = Path(__file__).with_name("explorer.html")
LARGEST = 1_000_000
"""Bytes of a page."""


def add_command(subparsers: Any) -> None:
    """Adds the command `explore`."""
    about = "a saved predictor as an HTML page with sliders"
    command = subparsers.add_parser("explore", help=about, description=__doc__)
    command.set_defaults(run=write_page_and_say_where)
    command.add_argument("predictor", type=Path, help="a file that `fit --save` wrote")
    about = "the page (default: mixture.html)"
    command.add_argument("-o", "--out", type=Path, default=Path("mixture.html"), help=about)
    about = "tokens that there are of each domain, as the page begins"
    command.add_argument("--inventory", nargs="+", default=[], metavar="DOMAIN=TOKENS", help=about)
    command.add_argument("--budget", type=float, help="tokens of the run, as the page begins")
    about = "epochs above which a domain is marked (default: 4, or the predictor's own cap)"
    command.add_argument("--epochs", type=float, help=about)


def write_page_and_say_where(arguments: argparse.Namespace) -> str:
    """Writes the page; where it is.

    Raises:
        InputError: a file that cannot be read or written, or what `render_page` refuses.
    """
    text = render_page(
        arguments.predictor,
        inventory_override=options.parse_numbers(arguments.inventory, "--inventory"),
        budget_override=arguments.budget,
        mark_above_epochs=arguments.epochs,
    )
    try:
        arguments.out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--out: {error}: give another path") from None
    return f"{arguments.out}: open it in a browser; it needs no network"


def render_page(
    path: Path,
    *,
    inventory_override: Mapping[str, float] | None = None,
    budget_override: float | None = None,
    mark_above_epochs: float | None = None,
) -> str:
    """The HTML of a saved predictor.

    The page begins with these tokens of each domain and of the run, and marks a domain above so
    many epochs; what is not given is as the predictor was fitted, or 4 epochs.

    Raises:
        InputError: it is no predictor, predicts by no formula or of several phases, or its page
            would be larger than `LARGEST`.
    """
    inventory = inventory_override or {}
    numbers = {"--budget": budget_override, "--epochs": mark_above_epochs}
    numbers |= {f"--inventory: {name}": tokens for name, tokens in inventory.items()}
    refuse(
        [
            f"{name}: {number:g} must be a finite number above 0"
            for name, number in numbers.items()
            if number is not None and not 0 < number < math.inf
        ]
    )
    kept = saved_predictors.load_predictor(path)
    domains = kept.swarm.domains
    if len(kept.swarm.phases) > 1:
        raise InputError(
            f"{path}: is of {len(kept.swarm.phases)} phases: a page has one mixture: fit without "
            "--phases"
        )
    record = json.loads(path.read_text(encoding="utf-8"))
    settings = record["settings"]
    goal = kept.swarm.final_or_common_inventory()
    known = {} if goal is None else dict(zip(domains, goal.available_K.tolist(), strict=True))
    stock = {**known, **(settings.get("tokens_by_domain") or {}), **inventory}
    if further := [name for name in stock if name not in domains]:
        raise InputError(f"--inventory: {further[0]!r} is no domain of {path}")
    target_K = kept.swarm.target_weights(settings.get("target"))
    names = [n for n, u in zip(kept.swarm.losses, target_K, strict=True) if u]
    by_loss = kept.held_out_rmse_by_loss or {}
    data = {
        "about": f"{record['finder']}, fitted to {len(kept.measured_NxK)} runs of {len(domains)} "
        f"domains, from {path.name}. Predicted losses are those of models of their size.",
        "digest": hashlib.sha256(path.read_bytes()).hexdigest(),
        "domains": domains,
        "losses": kept.swarm.losses,
        "target": target_K.tolist(),
        "targetName": names[0] if len(names) == 1 else f"Weighted mean of {len(names)} losses",
        "optimum": kept.optimum_K.tolist(),
        "equal": kept.swarm.uniform_weights().tolist(),
        "measured": kept.measured_NxK.tolist(),
        "rmse": kept.held_out_rmse,
        "rmseByLoss": [by_loss.get(name) for name in kept.swarm.losses],
        "inventory": [_number_text(stock.get(name)) for name in domains],
        "budget": _number_text(
            budget_override
            or settings.get("budget_tokens")
            or (None if goal is None else goal.tokens)
        ),
        "epochs": _number_text(mark_above_epochs or settings.get("epochs") or 4),
        "textFile": TEXT_FILE,
        "formats": {name: _trainer_format_as_json(one) for name, one in FORMATS.items()},
        **_prediction_formula(record["finder"], kept.predictor),
    }
    # A name with </script> in it ends no script.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    result = TEMPLATE.read_text(encoding="utf-8").replace("__DATA__", text)
    if (size := len(result.encode("utf-8"))) > LARGEST:
        raise InputError(
            f"{path}: its page would have {size / 1e6:.1f} MB, above {LARGEST / 1e6:g}: fit with "
            "fewer trees (--set rounds=200) or runs, or take the finder mixing-law"
        )
    return result


def _number_text(value: float | None) -> str:
    """As a person types it, 25B, where nothing is lost; else all digits."""
    if value is None:
        return ""
    for unit, mark in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1, "")):
        text = f"{value / unit:.6g}"
        if value >= unit and float(text) * unit == value:
            return text + mark
    return f"{value:.17g}"


def _prediction_formula(finder: str, predictor: Any) -> dict[str, Any]:
    """What the page computes predictions from."""
    if isinstance(predictor, ConvexProgram):
        laws = predictor.laws
        values = {"c": laws.c_K, "b": laws.b_K, "t": laws.t_KxK}
        return {"law": {name: array.tolist() for name, array in values.items()}}
    if isinstance(predictor, Trees):
        dumped = predictor.booster.dump_model()["tree_info"]
        return {"trees": [_tree_as_arrays(tree["tree_structure"]) for tree in dumped]}
    if isinstance(predictor, Surface):
        model = predictor.model
        if isinstance(model, scheffe.Polynomials):
            coefficients = model.coefficient_CxM.T.tolist()
            constants = model.constant_M.tolist()
            return {"polynomials": {"constants": constants, "coefficients": coefficients}}
        if isinstance(model, exposure_law.Exposures) and (goal := predictor.goal) is not None:
            own = {"tokens": goal.tokens, "available": goal.available_K.tolist()}
            return {"exposures": {**model.record(), **own}}
        if isinstance(model, gaussian_process.GaussianProcesses):
            return {"processes": model.formula()}
    raise InputError(
        f"the finder {finder!r} predicts by no formula that a page can hold: take mixing-law, "
        "regmix, exposure-law, scheffe or gaussian-process"
    )


_NodeOrInvertedLeafIndex = int
"""Of a leaf ~index, below 0."""


def _tree_as_arrays(root: Mapping[str, Any]) -> dict[str, list[Any]]:
    """A tree as arrays: children below 0 are leaves ~child."""
    tree: dict[str, list[Any]] = {n: [] for n in ("feature", "threshold", "left", "right", "leaf")}

    def append_subtree(node: Mapping[str, Any]) -> _NodeOrInvertedLeafIndex:
        if "split_feature" not in node:
            tree["leaf"].append(node["leaf_value"])
            return ~(len(tree["leaf"]) - 1)
        assert node["decision_type"] == "<=", "weights are numbers, and none is missing"
        number = len(tree["feature"])
        tree["feature"].append(node["split_feature"])
        tree["threshold"].append(node["threshold"])
        for side in ("left", "right"):
            tree[side].append(0)
        for side in ("left", "right"):
            tree[side][number] = append_subtree(node[f"{side}_child"])
        return number

    append_subtree(root)
    return tree


def _trainer_format_as_json(trainer_format: TrainerFormat) -> dict[str, Any]:
    def parts_as_json(parts: Sequence[Any]) -> list[Any]:
        return [vars(part) if isinstance(part, EachDomain) else part for part in parts]

    return {
        "trainer": trainer_format.trainer,
        "counts": trainer_format.counts,
        "notes": trainer_format.notes,
        "forbidden": trainer_format.forbidden,
        "reads": trainer_format.reads,
        "wants": trainer_format.wants,
        "needsRows": trainer_format.needs_rows,
        "named": trainer_format.has_unquoted_names,
        "files": {name: parts_as_json(file) for name, file in trainer_format.files.items()},
    }
