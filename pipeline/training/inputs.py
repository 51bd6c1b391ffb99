"""What a run reads before its first step, opened and checked; runs that cannot be trained."""

import dataclasses
import importlib
import logging
from pathlib import Path
from typing import Any

import torch

from pike_mixing import RULES
from pike_mixing.errors import InputError, refuse
from pike_mixing.interface import Method, RunFacts
from pike_mixing.setting_limits import Proportions
from pike_mixing.setting_messages import domain_mismatch_problems
from pike_mixing.settings import value_problems
from pike_mixing.torch import parallel
from pipeline import settings
from pipeline.data.shards import Corpus, refuse_replaced_tokenizer
from pipeline.model import checkpoint
from pipeline.model.transformer import Transformer
from pipeline.runtime import atomic_files, devices, distributed, environment, made_from, xla_chips
from pipeline.runtime import manifests as reading

log = logging.getLogger("pike")


@dataclasses.dataclass(frozen=True)
class RunInputs:
    """Corpora, and what other runs left for this one."""

    corpora: dict[str, Corpus]
    """Training split of each domain."""
    held_out: dict[str, Corpus]
    """Validation split of each domain; empty where the run does not look at it."""
    mixture: dict[str, float] | None
    """Weights by domain that other runs found."""
    reference: Transformer | None
    """A finished run's model."""
    snapshot: made_from.InputSnapshot
    """Manifests of all of them, and the code, as they were before they were read."""
    identity: dict[str, Any]
    """All that the run is a function of, of what lies here."""

    def refuse_changed_corpora(self) -> None:
        """Raises InputError where a corpus was changed since it was opened."""
        for corpus in (*self.corpora.values(), *self.held_out.values()):
            corpus.watched.refuse_changed()

    def run_facts(self, recipe: settings.Training) -> RunFacts:
        """What a method may ask of the run."""
        return RunFacts(
            tokens_by_domain={d: c.tokens for d, c in self.corpora.items()},
            budget_tokens=recipe.rows * recipe.length * recipe.steps,
            mixture=self.mixture,
            steps=recipe.steps,
        )


def read_inputs(
    work: settings.Run, method: Method, corpora: Path, reference: Path | None, mixture: Path | None
) -> RunInputs:
    """Opens what a run reads; what is missing, damaged, of no use or does not fit is refused."""
    read = [corpora / domain / atomic_files.MANIFEST for domain in work.domains]
    read += [] if mixture is None else [mixture]
    read += [] if reference is None else [reference / atomic_files.MANIFEST]
    snapshot = made_from.InputSnapshot("pretrain", root_code_modules(work), inputs=read)
    opened_corpora = _open_training_splits(corpora, work)
    _refuse_missing_or_needless_inputs(work, method, reference, mixture)
    identity: dict[str, Any] = {"corpora": {d: c.fingerprint for d, c in opened_corpora.items()}}
    weights = model = None
    if mixture is not None:
        if work.tuned:
            identity["chosen"] = settings_from_grid_or_refuse(work, mixture)
        else:
            identity["mixture"] = weights = _read_found_weights(mixture, work)
    if reference is not None:
        model, identity["reference"] = _load_reference_and_digest(reference, work)
    held_out = _open_validation_splits(corpora, work)
    return RunInputs(opened_corpora, held_out, weights, model, snapshot, identity)


def _open_split(folder: Path, work: settings.Run, split: str) -> dict[str, Corpus]:
    """A split of each domain, checksums verified by the first process of a node."""
    first = distributed.is_first_of_node()
    return {d: Corpus.open(folder / d, split, verify=first) for d in work.domains}


def _open_training_splits(folder: Path, work: settings.Run) -> dict[str, Corpus]:
    """The training split of each domain, of enough text and of the tokenizer that there is now."""
    corpora = _open_split(folder, work, "train")
    for domain, corpus in corpora.items():
        refuse_replaced_tokenizer(folder / domain, corpus.manifest)
    _refuse_tokenizer_unlike_pretrained(folder / work.domains[0], corpora[work.domains[0]], work)
    recipe = work.training
    rows = {domain: corpus.row_count(recipe.length) for domain, corpus in corpora.items()}
    problems = [
        f"domain {domain!r} has {there} rows of {recipe.length} tokens to train on, fewer than one "
        f"batch of {recipe.rows} (scenarios.{work.scenario}): give its source more text, or lower "
        "training's rows or length"
        for domain, there in rows.items()
        if there < recipe.rows
    ]
    needed, whole = recipe.rows * recipe.steps, sum(rows.values())
    if recipe.max_epochs is not None and needed > recipe.max_epochs * whole:
        problems.append(
            f"the run trains on {needed:,} rows, but the domains have {whole:,}, which may be read "
            f"{recipe.max_epochs:g} times (training's max_epochs): give them more text, train for "
            "fewer steps, or raise max_epochs"
        )
    refuse(problems)
    return corpora


def _refuse_tokenizer_unlike_pretrained(folder: Path, corpus: Corpus, work: settings.Run) -> None:
    """Stops at a corpus of another tokenizer than that of the weights that training goes on from.

    Where either is not there to be compared, other sizes are told.
    """
    if work.model.weights_folder is None:
        return
    weights, where = Path(work.model.weights_folder), f"tokenizers.{work.tokenizer}"
    theirs = sorted(weights.glob("tokenizer.json")) or sorted(weights.glob("*.model"))
    named = [folder / name for name in corpus.manifest.get("inputs", {})]
    ours = [path for path in named if path.suffix == ".model" and path.is_file()]
    if theirs and ours:
        # No other run needs SentencePiece.
        reader: Any = importlib.import_module("pipeline.data.tokenizer")
        pieces, known = reader.Tokenizer(ours[0]).ids_by_piece, reader.piece_ids_of_file(theirs[0])
        if other := [piece for piece, number in pieces.items() if known.get(piece) != number]:
            raise InputError(
                f"{where}: {len(other):,} of {len(pieces):,} pieces, such as {other[0]!r}, are not "
                f"in {theirs[0]}, or have another number there: give that file"
            )
    elif corpus.vocabulary != (rows := work.model.padded_vocabulary(0)):
        log.warning(
            "%s has %s pieces and the embedding of %s %s, whose tokenizer is not there to be "
            "compared: make sure that it is the same",
            *(where, f"{corpus.vocabulary:,}", weights, f"{rows:,}"),
        )


def _open_validation_splits(folder: Path, work: settings.Run) -> dict[str, Corpus]:
    """The validation split of each domain, of a row at least; {} where none is asked for."""
    if not work.training.validation_every:
        return {}
    corpora, length = _open_split(folder, work, "validation"), work.training.length
    if empty := [d for d, corpus in corpora.items() if not corpus.row_count(length)]:
        raise InputError(
            f"no row of {length} held-out tokens of {', '.join(empty)} (scenarios.{work.scenario}):"
            " give its source more text or a larger validation_share, or leave out training's "
            "validation_every"
        )
    return corpora


def _refuse_missing_or_needless_inputs(
    work: settings.Run, method: Method, reference: Path | None, mixture: Path | None
) -> None:
    requested = {
        "reference": (method.needs().reference, reference),
        "mixture": (work.method.get("mixture") is not None or bool(work.tuned), mixture),
    }
    for name, (needed, given) in requested.items():
        if needed and given is None:
            raise InputError(
                f"method {work.method_name!r} needs {name} {work.method.get(name)!r}: give it "
                f"with --{name}"
            )
        if given is not None and not needed:
            raise InputError(f"method {work.method_name!r} has no use for --{name} {given}")


def settings_from_grid_or_refuse(work: settings.Run, mixture: Path | None) -> dict[str, Any]:
    """The settings that a grid's best run gives to a run's method; none without a grid."""
    if not work.tuned:
        return {}
    named = ", ".join(work.tuned)
    if mixture is None:
        raise InputError(
            f"method {work.method_name!r} takes {named} from a grid: give its choice with --mixture"
        )
    chosen: dict[str, Any] = reading.read_manifest(mixture, "mixture").get("chosen", {})
    if chosen.keys() != work.tuned.keys() or any(v not in work.tuned[n] for n, v in chosen.items()):
        raise InputError(
            f"{mixture} gives {chosen}, but method {work.method_name!r} takes {named} from a grid: "
            "give the choice of that grid"
        )
    return chosen


def _read_found_weights(mixture: Path, work: settings.Run) -> dict[str, float]:
    """The weights of a found mixture, one for each domain of the run."""
    weights: dict[str, float] = reading.read_manifest(mixture, "mixture")["weights_by_domain"]
    where = f"{mixture}: weights_by_domain"
    problems = domain_mismatch_problems(weights, work.domains, where, "has no weight")
    refuse(problems + value_problems(weights, Proportions, where))
    return weights


def _load_reference_and_digest(folder: Path, work: settings.Run) -> tuple[Transformer, str]:
    """The model after the last step of a finished run, and the checksum of its weights."""
    result = reading.read_run_manifest_and_settings(folder).manifest
    known = set(result["domains"])
    if not set(work.domains) <= known:
        raise InputError(
            f"{folder}: the reference was trained on {', '.join(sorted(known))}, but the run on "
            f"{', '.join(work.domains)}: they must share the domains"
        )
    model = checkpoint.load_model(folder / "checkpoints" / f"step{result['steps']}")
    return model.requires_grad_(False), result["weights_sha256"]


def refuse_untrainable(
    work: settings.Run, method: Method, device: torch.device, *, shard: bool, recompute: bool
) -> None:
    """Raises InputError with all that keeps these processes and this device from training."""
    recipe, n = work.training, parallel.world_size()
    problems = [
        f"method {work.method_name!r} in scenario {work.scenario!r}: {problem}"
        for problem in recipe.variance_problems(method.needs().statistics, len(work.domains))
    ]
    if work.model.architecture and (shard or recompute):
        problems.append(
            "a model of transformers is neither divided nor computed again: leave --shard and "
            "--recompute, or lower training.microbatch_rows"
        )
    if shard and n == xla_chips.chip_count(device) == 1:
        problems.append(
            "--shard is for several processes or chips: start them with --processes, or leave it"
        )
    if n > recipe.rows:
        problems.append(f"{n} processes, but training.rows of {recipe.rows}: start fewer")
    refuse(problems)


def refuse_beyond_host_memory(
    work: settings.Run, tokenizer_pieces: int, device: torch.device
) -> None:
    """Raises InputError where this machine cannot hold the model that is to be trained.

    Linux promises memory that is not there and kills who uses it.
    """
    # Weights, their gradients and two moments; on another device only the first weights.
    copies = 4 if device.type == "cpu" else 1
    parameters = work.model.parameter_count(tokenizer_pieces)
    needed, here = 4 * copies * parameters, environment.memory_limit_bytes()
    if needed > here and not work.model.architecture:
        raise InputError(
            f"model {work.model_name!r} has {parameters:,} parameters, which take "
            f"{needed / 2**30:,.1f} GiB at least, and {here / 2**30:,.1f} GiB are here "
            "(or allowed by `ulimit -v`): lower its layers, width, heads or head_width, or take a "
            "larger machine"
        )


def refuse_too_few_joined_devices(requested: int, device: torch.device) -> None:
    """Raises InputError where fewer processes or chips are here than were asked for."""
    result = parallel.world_size() * xla_chips.chip_count(device)
    if result < requested:
        raise InputError(
            f"{requested} processes or chips were asked for (--processes, or `processes` under "
            f"set-resources of pretrain), and {devices.describe_device(device)} is {result}: ask "
            f"for {result}"
        )


def root_code_modules(work: settings.Run) -> tuple[str, ...]:
    """The modules whose code a run is a function of."""
    rule = RULES.get(work.rule, work.rule).partition(":")[0]
    foreign = ("pipeline.model.transformers_model",) if work.model.architecture else ()
    return "pipeline.training.train", rule, *foreign
