import copy
import dataclasses
import subprocess
import sys

import pytest
import torch
from recipes import recipe

from pipeline import settings
from pipeline.model import adamw, learning_rate, transformer

PAPER = recipe(
    steps=120_000,
    warmup_steps=10_000,
    peak_learning_rate=7e-4,
    initial_learning_rate=7e-6,
    final_learning_rate=7e-6,
)


def test_the_papers_schedule_begins_peaks_and_ends_exactly():
    assert learning_rate.learning_rate_at_step(0, PAPER) == 7e-6
    assert learning_rate.learning_rate_at_step(10_000, PAPER) == 7e-4
    assert learning_rate.learning_rate_at_step(119_999, PAPER) == 7e-6


@pytest.mark.parametrize(
    ("steps", "warmup_steps", "rates"),
    [
        (5, 0, [1.0, 0.775, 0.55, 0.325, 0.1]),
        (5, 2, [0.2, 0.6, 1.0, 0.55, 0.1]),
        (3, 3, [0.2, 0.2 + 0.8 / 3, 0.2 + 1.6 / 3]),
        (3, 2, [0.2, 0.6, 1.0]),
        (1, 0, [1.0]),
    ],
)
def test_short_schedules(steps, warmup_steps, rates):
    ends = {"peak_learning_rate": 1.0, "initial_learning_rate": 0.2, "final_learning_rate": 0.1}
    short = recipe(steps=steps, warmup_steps=warmup_steps, **ends)
    found = [learning_rate.learning_rate_at_step(step, short) for step in range(steps)]
    assert found == pytest.approx(rates)


def tiny():
    return transformer.initial_model(settings.Model(layers=1, width=4, heads=1, head_width=2), 8, 0)


def test_moments_are_the_papers_and_matrices_are_decayed_but_not_gains():
    net = tiny()
    groups = adamw.build_adamw(net, PAPER).param_groups
    assert {(group["betas"], group["eps"]) for group in groups} == {((0.95, 0.98), 1e-8)}
    decayed = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    for name, weight in net.named_parameters():
        assert decayed[id(weight)] == (0.0 if "norm" in name else 0.1), name
    assert len(decayed) == len(list(net.parameters()))
    every = dataclasses.replace(PAPER, decayed="all", epsilon=1e-9)
    assert {group["weight_decay"] for group in adamw.build_adamw(net, every).param_groups} == {0.1}


def test_the_optimizer_is_torchs_own_to_the_bit():
    """Twin models, three steps each, one by torch's class; states go from one to the other."""
    torch.manual_seed(0)
    ours = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3))
    theirs = copy.deepcopy(ours)
    mine = adamw.build_adamw(ours, PAPER)
    settings = {"lr": PAPER.initial_learning_rate, "betas": (PAPER.beta1, PAPER.beta2)}
    groups = [
        {"params": [theirs[0].weight], "weight_decay": PAPER.weight_decay},
        {"params": [theirs[0].bias, *theirs[1].parameters()], "weight_decay": 0.0},
    ]
    torchs = torch.optim.AdamW(groups, **settings, eps=PAPER.epsilon, fused=True)
    for _ in range(3):
        x = torch.randn(5, 4)
        for net, optimizer in ((ours, mine), (theirs, torchs)):
            optimizer.zero_grad()
            net(x).square().sum().backward()
            optimizer.step()
        torchs.load_state_dict(copy.deepcopy(mine.state_dict()))
    for our, their in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(our, their)
        assert our.requires_grad


NEVER_COMPILED = """
import sys
import torch
from pipeline import settings
from pipeline.model import adamw

rates = {"peak_learning_rate": 1e-3, "initial_learning_rate": 0.0, "final_learning_rate": 0.0}
every = {"steps": 1, "warmup_steps": 0, "checkpoint_every": 1, "resume_every": 1}
recipe = settings.Training(rows=2, length=8, **every, **rates)
model = torch.nn.Linear(2, 2)
for one in (adamw.build_adamw(model, recipe), adamw.build_per_domain_adamw(model, recipe, 1)):
    one.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    if hasattr(one, "update_domain_moments"):
        one.update_domain_moments(0, 1.0)
    one.step()
    one.load_state_dict(one.state_dict())
print("torch._dynamo" in sys.modules)
"""


@pytest.mark.slow
def test_training_without_compiling_never_imports_torchs_compiler():
    command = [sys.executable, "-c", NEVER_COMPILED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
