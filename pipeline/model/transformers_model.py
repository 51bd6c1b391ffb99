"""A causal model of transformers in the place of the paper's decoder (extra `[hf]`).

It is trained and evaluated as the decoder is: the chunked loss reads its last hidden states and its
output layer, so that a model whose logits are anything else is refused. Dropout is off.

Shapes: B rows, L tokens, D width, V vocabulary.
"""

from pathlib import Path
from typing import Any, Self

import torch
import transformers
from torch import Tensor, nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from pike_mixing.errors import InputError
from pipeline import settings
from pipeline.model.transformer import PRECISIONS, AttentionLayout, Transformer
from pipeline.runtime import devices, model_folders

TOLERANCE = 1e-4
"""Between its logits and those of the pipeline, of their largest."""
LARGEST_LOGIT = 100.0
"""The largest logit there, about."""
TRIED = 6
"""Tokens on which they are compared."""


class TransformersModel(Transformer):
    """The model, as the pipeline knows its own."""

    takes_layouts = False

    def __init__(self, shape: settings.Model, vocabulary: int) -> None:
        nn.Module.__init__(self)
        self.shape, self.vocabulary = shape, vocabulary
        self.precision, self.recomputes = torch.float32, False
        self.net = _build_transformers_model(shape, vocabulary).eval()
        self._refuse_unless_causal_with_linear_logits()

    def configure(self, recipe: settings.Training) -> Self:
        """The same model, computing as a recipe says."""
        self.precision = PRECISIONS[recipe.precision]
        longest = getattr(self.net.config, "max_position_embeddings", None)
        problems = model_folders.training_problems(
            vars(recipe), longest, is_xla_device=devices.is_xla(self.device)
        )
        if problems:
            raise InputError(f"a model of transformers: {'; '.join(problems)}")
        return self

    @property
    def output_weight(self) -> Tensor:
        """The weight of the output layer, V x D."""
        return self.net.get_output_embeddings().weight

    def train(self, mode: bool = True) -> Self:
        """Stays in evaluation mode: a run is a function of its seed, without dropout's draws."""
        return super().train(False)

    def _hidden_states(self, tokens_BxL: Tensor, layout: AttentionLayout | None) -> Tensor:
        assert layout is None, "takes_layouts is False"
        return self.net.base_model(tokens_BxL, use_cache=False)[0]

    @torch.no_grad()
    def _refuse_unless_causal_with_linear_logits(self) -> None:
        """Refuses a model that the pipeline would compute otherwise."""
        kind, output = type(self.net).__name__, self.net.get_output_embeddings()
        generator = torch.Generator().manual_seed(0)
        tokens_BxL = torch.randint(self.vocabulary, (2, TRIED), generator=generator)
        tokens_BxL[1, :-1] = tokens_BxL[0, :-1]
        before = output.weight.clone()
        # A cap shows at large logits alone.
        output.weight.mul_(LARGEST_LOGIT / max(1e-6, float(self(tokens_BxL).abs().max())))
        own_BxLxV, result_BxLxV = self.net(tokens_BxL, use_cache=False).logits, self(tokens_BxL)
        output.weight.copy_(before)
        tolerance = TOLERANCE * max(1.0, float(own_BxLxV.abs().max()))
        differs = not float((own_BxLxV - result_BxLxV).abs().max()) <= tolerance
        if differs or getattr(output, "bias", None) is not None:
            raise InputError(
                f"{kind}: its logits are not its last hidden states times its output layer (a "
                "bias, a scale, a cap?): train it in your own loop (docs/trainers.md)"
            )
        if not float((own_BxLxV[0, :-1] - own_BxLxV[1, :-1]).abs().max()) <= tolerance:
            raise InputError(f"{kind} sees the tokens that it is to predict: give a causal model")


def initial_or_pretrained_model(
    shape: settings.Model, vocabulary: int, seed: int
) -> TransformersModel:
    """A model with its library's initial weights, or with those that it goes on from."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        result = TransformersModel(shape, vocabulary)
    if shape.weights_folder is None:
        return result
    found = model_folders.folder_weights_digest(Path(shape.weights_folder))
    if found != shape.weights_sha256:
        raise InputError(
            f"{shape.weights_folder}: its weights were changed since the run was planned"
        )
    net, loaded = type(result.net).from_pretrained(
        shape.weights_folder,
        config=result.net.config,
        local_files_only=True,
        use_safetensors=True,
        dtype=torch.float32,
        output_loading_info=True,
    )
    if missing := sorted(loaded["missing_keys"]):
        raise InputError(
            f"{shape.weights_folder} lacks weights of the model: {', '.join(missing[:5])}"
        )
    result.net = net.eval()
    return result


def _build_transformers_model(shape: settings.Model, vocabulary: int) -> Any:
    values = dict(shape.architecture)
    kind = values.pop("model_type", None)
    if kind not in CONFIG_MAPPING:
        raise InputError(
            f"models: model_type {kind!r}: transformers {transformers.__version__} has none"
        )
    if shape.weights_folder is None:
        values |= dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
        values["vocab_size"] = vocabulary
    elif values.get("vocab_size") != vocabulary:
        raise InputError(
            f"{shape.weights_folder} has an embedding of {values.get('vocab_size')} pieces and the "
            f"tokenizer {vocabulary:,}: give the tokenizer that it was trained with"
        )
    if values.get("output_router_logits"):
        raise InputError("models: output_router_logits: the routers' loss is not trained: leave it")
    config = CONFIG_MAPPING[kind].from_dict(values)
    try:
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    except ValueError as error:
        raise InputError(f"models: {kind}: no causal model of transformers: {error}") from None
