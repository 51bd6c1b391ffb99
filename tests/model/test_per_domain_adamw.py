import json
from pathlib import Path

import pytest
import torch
from recipes import recipe
from torch import nn

from pike_mixing.torch import PerDomainAdamW
from pipeline.model import adamw as optim

VECTORS = Path(__file__).parents[1] / "rules" / "vectors" / "adatask.json"


def point(*values):
    return nn.Parameter(torch.tensor(values, dtype=torch.float64))


def plain(parameter, domains, *, lr=0.5, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0):
    groups = [{"params": [parameter], "weight_decay": weight_decay}]
    return PerDomainAdamW(groups, domains, lr=lr, betas=betas, eps=eps)


def take(optimizer, parameter, domain, gradient, coefficient):
    parameter.grad = torch.tensor(gradient, dtype=parameter.dtype)
    optimizer.update_domain_moments(domain, coefficient)


def test_the_authors_trajectory_is_met():
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    curvature_KxD = torch.tensor(vectors["curvature_KxD"], dtype=torch.float64)
    minimum_KxD = torch.tensor(vectors["minimum_KxD"], dtype=torch.float64)
    x_D = point(*vectors["start_D"])
    optimizer = plain(
        x_D, 2, lr=vectors["learning_rate"], betas=tuple(vectors["betas"]), eps=vectors["epsilon"]
    )
    found = []
    for _ in vectors["trajectory_TxD"]:
        for k, scale in enumerate(vectors["loss_scale_K"]):
            # Of the loss scale / 2 sum_d A_d (x_d - C_d)^2.
            gradient_D = scale * curvature_KxD[k] * (x_D.detach() - minimum_KxD[k])
            take(optimizer, x_D, k, gradient_D.tolist(), 1.0)
        optimizer.step()
        found.append(x_D.tolist())
    torch.testing.assert_close(
        torch.tensor(found), torch.tensor(vectors["trajectory_TxD"]), rtol=1e-12, atol=1e-12
    )


def test_one_program_for_all_steps_moves_like_a_loop_over_the_domains_with_rows():
    x_D, y_D = point(1.0, -2.0), point(1.0, -2.0)
    rates = {"lr": 0.1, "betas": (0.9, 0.99), "weight_decay": 0.5}
    optimizers = [
        PerDomainAdamW([x_D], 3, **rates),
        optim.CompiledPerDomainAdamW([y_D], 3, **rates),
    ]
    for domains in ([0], [0, 2], [1], [2, 1, 0], [2]):
        for optimizer, parameter in zip(optimizers, (x_D, y_D), strict=True):
            for k in domains:
                take(optimizer, parameter, k, [k - 1.5, 0.3 * k + 0.1], 1 / len(domains))
            optimizer.step()
        torch.testing.assert_close(x_D, y_D, rtol=1e-12, atol=1e-12)
    assert [o.state[p]["step"].tolist() for o, p in zip(optimizers, (x_D, y_D), strict=True)] == [
        [3, 2, 3]
    ] * 2


@pytest.mark.parametrize("domains", [1, 3])
def test_equal_gradients_make_the_steps_of_adamw(domains):
    x_D, y_D = point(1.0, -2.0, 0.5), point(1.0, -2.0, 0.5)
    rates = {"lr": 0.1, "betas": (0.95, 0.98), "eps": 1e-8, "weight_decay": 0.1}
    optimizer, adamw = plain(x_D, domains, **rates), torch.optim.AdamW([y_D], **rates)
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        gradient_D = torch.randn(3, generator=generator, dtype=torch.float64)
        for k in range(domains):
            take(optimizer, x_D, k, gradient_D.tolist(), 1 / domains)
        y_D.grad = gradient_D
        optimizer.step()
        adamw.step()
    torch.testing.assert_close(x_D, y_D, rtol=1e-12, atol=1e-12)


def test_a_domain_that_was_away_keeps_its_moments_and_its_corrections():
    x_D = point(0.0)
    optimizer = plain(x_D, 2, betas=(0.5, 0.5), eps=0.0)
    take(optimizer, x_D, 0, [1.0], 1.0)
    optimizer.step()
    before = x_D.item()
    take(optimizer, x_D, 1, [4.0], 1.0)
    optimizer.step()
    # Its own first step: the sign of its gradient times the rate, and nothing of domain 0.
    assert x_D.item() - before == pytest.approx(-0.5)
    state = optimizer.state[x_D]
    assert state["step"].tolist() == [1, 1]
    assert [state[f"exp_avg_{k}"].item() for k in range(2)] == [0.5, 2.0]
    assert [state[f"exp_avg_sq_{k}"].item() for k in range(2)] == [0.5, 8.0]


@pytest.mark.parametrize("kind", [PerDomainAdamW, optim.CompiledPerDomainAdamW])
@pytest.mark.parametrize("late", [0, 1])
def test_a_parameter_that_begins_to_train_later_has_its_own_corrections(kind, late):
    points = [point(0.0), point(0.0)]
    optimizer = kind([{"params": points}, {"params": [point(0.0)]}], 1, lr=0.5, eps=0.0)
    # Of groups that stay frozen nothing is taken.
    for frozen in (points[late], *optimizer.param_groups[1]["params"]):
        frozen.requires_grad_(False)
    for step in range(3):
        points[late].requires_grad_(step == 2)
        for p in points:
            p.grad = torch.ones_like(p) if p.requires_grad else None
        optimizer.update_domain_moments(0, 1.0)
        optimizer.step()
    # Equal gradients move a parameter by the rate in each of its own steps.
    assert points[late].item() == pytest.approx(-0.5)
    assert points[1 - late].item() == pytest.approx(-1.5)


def test_the_recipes_rates_and_groups_are_those_of_adamw():
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    groups = optim.build_per_domain_adamw(model, recipe(), domains=2).param_groups
    for ours, theirs in zip(groups, optim.build_adamw(model, recipe()).param_groups, strict=True):
        assert [id(p) for p in ours["params"]] == [id(p) for p in theirs["params"]]
        for name in ("lr", "betas", "eps", "weight_decay"):
            assert ours[name] == theirs[name]
