import cmath
import math

import pytest
import torch
import torch.nn.functional as F

from pipeline import settings
from pipeline.model import transformer
from pipeline.model.transformer import initial_model, token_losses

TINY = settings.Model(layers=2, width=12, heads=2, head_width=4, vocabulary_multiple=8)


def random_tokens(rows, length, vocabulary, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocabulary, (rows, length), generator=generator)


@pytest.mark.parametrize(("pieces", "rows"), [(250_100, 250_112), (32_128, 32_128), (1, 128)])
def test_the_vocabulary_is_rounded_up(pieces, rows):
    assert settings.Model(1, 8, 1, 8).padded_vocabulary(pieces) == rows


def test_rotary_angles_are_those_of_the_paper():
    # Pair i of W/2 turns by position * 10000^(-2i/W): for W = 4 by 1 and by 1/100 a position.
    cosine_LxP, sine_LxP = transformer.rotary_cosines_and_sines(torch.arange(3), 4)
    torch.testing.assert_close(cosine_LxP[2], torch.tensor([math.cos(2), math.cos(0.02)]))
    torch.testing.assert_close(sine_LxP[2], torch.tensor([math.sin(2), math.sin(0.02)]))
    # Pairs are (0, 2) and (1, 3); x + iy turned by the angle a is (x + iy) e^ia.
    turned = transformer.apply_rotary(
        torch.tensor([1.0, 2, 3, 4]).expand(1, 1, 3, 4), (cosine_LxP, sine_LxP)
    )
    one, two = (1 + 3j) * cmath.exp(2j), (2 + 4j) * cmath.exp(0.02j)
    expected = torch.tensor([one.real, two.real, one.imag, two.imag])
    torch.testing.assert_close(turned[0, 0, 2], expected, atol=1e-6, rtol=0)


def plain_losses(net, tokens_BxL1):
    """The training path written out: rows read from left to right, nothing shared."""
    weights, W = net.state_dict(keep_vars=True), net.shape.head_width
    tokens, targets = tokens_BxL1[:, :-1], tokens_BxL1[:, 1:]
    B, L = tokens.shape
    exponent = torch.arange(0, W, 2, dtype=torch.float32) / W
    angle = torch.arange(L, dtype=torch.float32)[:, None] * 10_000.0**-exponent
    rotation = angle.cos(), angle.sin()
    x = weights["embedding.weight"][tokens]

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], eps=1e-6)

    for block in (f"blocks.{n}" for n in range(net.shape.layers)):
        inside = F.linear(
            norm(x, f"{block}.attention_norm"), weights[f"{block}.attention.qkv.weight"]
        )
        q, k, v = inside.view(B, L, 3, net.shape.heads, W).permute(2, 0, 3, 1, 4)
        q = transformer.apply_rotary(norm(q, f"{block}.attention.query_norm"), rotation)
        k = transformer.apply_rotary(norm(k, f"{block}.attention.key_norm"), rotation)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + F.linear(y.reshape(B, L, -1), weights[f"{block}.attention.out.weight"])
        up = F.linear(norm(x, f"{block}.mlp_norm"), weights[f"{block}.up.weight"])
        x = x + F.linear(F.gelu(up), weights[f"{block}.down.weight"])
    logits = norm(x, "norm").flatten(0, 1) @ weights["embedding.weight"].T
    return F.cross_entropy(logits, targets.flatten(), reduction="none").view(B, L)


def test_losses_have_the_bits_of_the_plain_decoder():
    tokens = random_tokens(3, 18, 64)
    losses, gradients = [], []
    for function in (token_losses, plain_losses):
        net = initial_model(settings.Model(2, 32, 2, 16), 64, 0)
        losses.append(function(net, tokens))
        losses[-1].mean().backward()
        gradients.append([weight.grad for weight in net.parameters()])
    assert torch.equal(*losses)
    assert all(torch.equal(*pair) for pair in zip(*gradients, strict=True))


def test_initial_weights_have_the_scale_that_is_promised():
    shape = settings.Model(layers=2, width=64, heads=2, head_width=32)
    weights = initial_model(shape, 512, 0).state_dict()
    expected = {
        "embedding.weight": 64**-0.5,
        "blocks.1.attention.qkv.weight": 64**-0.5,
        "blocks.1.attention.out.weight": 64**-0.5 / 2,
        "blocks.1.up.weight": 64**-0.5,
        "blocks.1.down.weight": 256**-0.5 / 2,
    }
    for name, scale in expected.items():
        assert weights[name].std().item() == pytest.approx(scale, rel=0.05)
        assert abs(weights[name].mean().item()) < 0.1 * scale
    assert all((w == 1).all() for name, w in weights.items() if "norm" in name)


def test_nanodos_initial_weights_are_uniform_by_both_fans():
    shape = settings.Model(
        layers=2, width=64, heads=2, head_width=16, initial_weights="xavier-uniform"
    )
    weights = initial_model(shape, 512, 0).state_dict()
    bounds = {
        "blocks.1.attention.qkv.weight": (6 / (64 + 32)) ** 0.5,  # queries, keys, values: 64 to 32
        "blocks.1.attention.out.weight": (6 / (32 + 64)) ** 0.5,
        "blocks.1.up.weight": (6 / (64 + 256)) ** 0.5,
        "blocks.1.down.weight": (6 / (256 + 64)) ** 0.5,
    }
    for name, bound in bounds.items():
        assert weights[name].abs().max().item() == pytest.approx(bound, rel=0.01)
        # A uniform number within a bound has the standard deviation bound / sqrt(3).
        assert weights[name].std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
    assert weights["embedding.weight"].std().item() == pytest.approx(64**-0.5, rel=0.05)


def test_gelu_is_exact_or_by_tanh():
    # At 1: x Phi(x) = 0.841345; by tanh 0.841192.
    for activation, expected in (("gelu", 0.841345), ("gelu-tanh", 0.841192)):
        shape = settings.Model(layers=1, width=2, heads=1, head_width=2, activation=activation)
        block = transformer.Block(shape)
        for name, weight in block.named_parameters():
            torch.nn.init.constant_(weight, float(name in ("mlp_norm.weight", "up.weight")))
        with torch.no_grad():
            block.up.weight.copy_(torch.tensor([[1.0, 0.0]] * 8))
            block.down.weight.copy_(torch.eye(2, 8))
        # The norm of (1, -1) is (1, -1); its first number goes to both ends of the stream.
        found = block(
            torch.tensor([[[1.0, -1.0]]]), transformer.rotary_cosines_and_sines(torch.arange(1), 2)
        )
        assert found[0, 0].tolist() == pytest.approx([1 + expected, -1 + expected], abs=1e-5)


def test_a_model_of_transformers_takes_no_settings_of_the_decoder():
    given = {"activation": "gelu-tanh", "initial_weights": "xavier-uniform"}
    shape = settings.Model(1, 2, 1, 2, transformers="folder", **given)
    assert [problem.partition(":")[0] for problem in shape.problems()] == [*given]
