"""The model that a shape describes: the paper's decoder, or one of transformers."""

import importlib
from types import ModuleType

import torch

from pipeline import settings
from pipeline.model import transformer
from pipeline.model.transformer import Transformer


def initialised(shape: settings.Model, vocabulary: int, seed: int) -> Transformer:
    """A model with initial weights.

    Args:
        shape: The model's shape.
        vocabulary: Rows of the embedding.
        seed: Seed of the weights.

    Raises:
        InputError: no memory holds it, or transformers has no such model.
    """
    make = transformer if not shape.architecture else _foreign()
    result: Transformer = make.initialised(shape, vocabulary, seed)
    return result


def with_weights(
    shape: settings.Model, vocabulary: int, weights: dict[str, torch.Tensor]
) -> Transformer | None:
    """A model with these weights, which it keeps; None where they are of other shapes.

    Args:
        shape: The model's shape.
        vocabulary: Rows of the embedding.
        weights: By name.
    """
    # Buffers that no file holds are made with a model of transformers.
    with torch.device("cpu" if shape.architecture else "meta"):
        kind = _foreign().Foreign if shape.architecture else Transformer
        model: Transformer = kind(shape, vocabulary)
    own = model.state_dict()
    if {n: t.shape for n, t in weights.items()} != {n: t.shape for n, t in own.items()}:
        return None
    model.load_state_dict(weights, assign=not shape.architecture)
    return model


def _foreign() -> ModuleType:
    # Its package takes seconds to import and may not be installed.
    return importlib.import_module("pipeline.model.foreign")
