"""Models that no page names: the losses of rows are their own, or they are refused."""

import pytest
import torch
from tiny import VOCABULARY, language_loss, single_gradients, singles, tokens

from pike_mixing.errors import InputError
from pike_mixing.torch import causal_losses, gradient_statistics

transformers = pytest.importorskip("transformers")

SIZE = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 24}
EXPERTS = SIZE | HEADS | {"num_local_experts": 4}
XLNET = {"vocab_size": VOCABULARY, "d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 16}
RIGHT = {
    "state-space": ("MambaForCausalLM", SIZE | {"state_size": 4}),
    "state-space, two": (
        "Mamba2ForCausalLM",
        SIZE | {"num_heads": 4, "head_dim": 8, "n_groups": 1, "state_size": 4},
    ),
    "recurrent": ("RwkvForCausalLM", SIZE),
    "experts": ("MixtralForCausalLM", EXPERTS),
    "capped logits": ("Gemma2ForCausalLM", SIZE | HEADS | {"head_dim": 8}),
}
REFUSED = {
    "experts with their own loss": (
        "MixtralForCausalLM",
        EXPERTS | {"output_router_logits": True},
        "auxiliary loss of its routers",
    ),
    "labels at their place": ("XLNetLMHeadModel", XLNET, "the loss of a row is"),
}


def made(name, settings):
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    return kind(kind.config_class(**settings))


@pytest.mark.parametrize("kind", RIGHT)
def test_losses_and_gradient_statistics_are_the_models_own(kind):
    model, rows = made(*RIGHT[kind]), tokens(6)
    own = torch.stack([model(**row).loss for row in singles(rows)])
    torch.testing.assert_close(causal_losses(model, rows), own, rtol=1e-5, atol=1e-5)
    gradient_RxP, _ = single_gradients(model, language_loss, rows)
    measured = gradient_statistics(model, causal_losses, {"a": rows}, micro_batch_rows=1)
    variance = gradient_RxP.var(dim=0).sum().item()
    assert measured.variance_K == pytest.approx([variance], rel=1e-3)
    squared = gradient_RxP.mean(dim=0).square().sum().item() - variance / 6
    assert measured.squared_norm_unbiased_K == pytest.approx([squared], rel=1e-3, abs=1e-6)


class Hands(torch.nn.Module):
    """Hands a batch on to a model."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, **batch):
        return self.net(**batch)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("kind", REFUSED)
def test_other_losses_are_refused_at_the_first_step(kind, wrapped):
    *settings, said = REFUSED[kind]
    model = made(*settings)
    if wrapped:
        model = Hands(model)
    with pytest.raises(InputError, match=said):
        causal_losses(model, tokens(2))
