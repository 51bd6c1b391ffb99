"""Persimmon with our weights computes what our decoder computes."""

import dataclasses

import pytest
import torch

from pike_mixing.errors import InputError
from pipeline import settings
from pipeline.model import hf_config
from pipeline.model.transformer import initial_model

SHAPE = settings.Model(layers=2, width=24, heads=3, head_width=8, vocabulary_multiple=8)


def rough(shape, vocabulary=40):
    """A model whose gains differ from 1, so that no norm is passed over unseen."""
    net = initial_model(shape, vocabulary, 0).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in net.parameters():
            if weight.ndim == 1:
                weight.copy_(1 + torch.randn(weight.shape, generator=generator) / 2)
    return net


@pytest.mark.parametrize("heads", [3, 2, 1])
def test_transformers_gives_the_same_logits(heads):
    transformers = pytest.importorskip("transformers")
    net = rough(dataclasses.replace(SHAPE, heads=heads))
    values = hf_config.persimmon_config(net.shape, 40, 16)
    theirs = transformers.PersimmonForCausalLM(transformers.PersimmonConfig(**values)).eval()
    missing = theirs.load_state_dict(hf_config.persimmon_weights(net), strict=False)
    assert missing.missing_keys == ["lm_head.weight"]
    assert missing.unexpected_keys == []
    theirs.tie_weights()
    tokens = torch.randint(40, (2, 16), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        torch.testing.assert_close(theirs(tokens).logits, net(tokens), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("change", [{"heads": 4}, {"head_width": 10}])
def test_a_shape_that_transformers_has_not_is_refused(change):
    shape = dataclasses.replace(SHAPE, **change)
    with pytest.raises(InputError, match=r"wants head_width to divide width and heads not"):
        hf_config.persimmon_config(shape, 40, 16)
