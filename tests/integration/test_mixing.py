"""A method beside a training: when its weights act, what it is shown, what is refused."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from ranks import on_two_ranks
from torch import nn

from pike_mixing import ADO, FAMO, AdaTask, DoReMi, Fixed, Method, Needs, PiKE, ValidationNeed
from pike_mixing.errors import InputError
from pike_mixing.torch import (
    MixedDataset,
    Mixing,
    PerDomainAdamW,
    causal_excess,
    causal_losses,
    parallel,
)
from pike_mixing.torch.pass_interface import Passes

DOMAINS = {"a": [float(i) for i in range(40)], "b": [100.0 + i for i in range(40)]}


PIKE = PiKE(zeta1=1.0, zeta2=1.0)
NOW = dataclasses.replace(PIKE, first=0, rows=2)


@dataclasses.dataclass(frozen=True)
class Switches(Method):
    """All rows of `a`; after step 2, all of `b`."""

    every: int = 1

    def needs(self):
        return Needs(losses=True, validation=ValidationNeed(0, self.every, rows=3))

    def init(self, domains, seed):
        return {"weights_K": np.array([1.0, 0.0]), "seen": np.zeros(0)}

    def weights(self, state, step):
        return state["weights_K"]

    def allocate(self, state, step, b):
        return (state["weights_K"] * b).astype(np.int64)

    def observe(self, state, signals):
        if signals.validation_loss_K is not None:
            return state | {"seen": np.append(state["seen"], signals.validation_loss_K)}
        if signals.step == 2:
            return state | {"weights_K": np.array([0.0, 1.0])}
        return state


class Mean(nn.Module):
    """Loss of a row: its distance to a weight."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(()))
        self.modes = []

    def forward(self, x):
        self.modes.append(self.training)
        return (x - self.w) ** 2 / 100


def losses(model, rows):
    return model(rows)


class Undecorated(Method):
    def init(self, domains, seed):
        return {"weights_K": np.full(2, 0.5)}


def mixing_of(method, model=None, *, latency=0, steps=8, **options):
    dataset = MixedDataset(DOMAINS, 4, shuffle=False, steps=steps, micro_batch_rows=2)
    model = Mean() if model is None else model
    return Mixing(method, dataset, model, losses, latency=latency, **options)


def trained(mixing, until=None, **options):
    """Rows of each step, until one is to come."""
    w, found = mixing.model.w, [[]]
    for batch in mixing.data_loader(**options):
        found[-1] += batch.tolist()
        mixing.loss(mixing.model, batch).backward()
        if mixing.is_step_complete:
            w.data -= 0.1 * w.grad
            w.grad = None
            mixing.end_step()
            found.append([])
        if mixing.step == until:
            break
    return found[:-1]


@pytest.mark.parametrize("latency", [0, 1, 3])
def test_new_weights_act_after_the_latency_that_was_set(latency):
    rows = trained(mixing_of(Switches(), latency=latency))
    of_a = [step for step, ids in enumerate(rows) if ids[0] < 100]
    # Observed in step 2: without latency they fill step 3.
    assert of_a == list(range(3 + latency))
    assert [len(ids) for ids in rows] == [4] * 8


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "factor", "latency"), [(1, 2, 1), (2, 2, 2), (2, 4, 4)])
def test_workers_have_the_latency_of_what_they_draw_ahead(workers, factor, latency):
    options = {"num_workers": workers, "prefetch_factor": factor}
    rows = trained(mixing_of(Switches(), latency=latency), **options)
    assert rows == trained(mixing_of(Switches(), latency=latency))
    with pytest.raises(InputError, match=f"set Mixing's latency to {latency}"):
        trained(mixing_of(Switches(), latency=latency - 1), **options)


def test_the_same_rows_of_comparison_at_every_look_in_evaluation_mode():
    mixing = mixing_of(Switches(every=2))
    mixing.model.train()
    trained(mixing)
    seen = mixing.state["seen"].reshape(-1, 2)
    # Steps 0, 2, 4, 6; w is 0 before the first: means of 0, 1, 4 and of 100^2, 101^2, 102^2.
    assert len(seen) == 4
    assert seen[0].tolist() == pytest.approx([5 / 300, 30605 / 300])
    assert set(mixing.model.modes) == {True, False}
    assert mixing.model.training


@pytest.mark.parametrize(
    "rule", ["pcgrad", "adatask", NOW, dataclasses.replace(NOW, batch="training")]
)
@pytest.mark.parametrize("training", [False, True])
def test_passes_beside_the_trainings_leave_nothing(rule, training):
    model = nn.Sequential(nn.BatchNorm1d(1), nn.Dropout(0.5), nn.Dropout(0.5)).train(training)
    model[2].eval()
    modes = []
    for dropout in model[1:]:
        dropout.register_forward_hook(lambda module, *_: modes.append(module.training))
    mixing = Mixing(
        rule,
        MixedDataset(DOMAINS, 4, micro_batch_rows=2),
        None,
        lambda model, rows: model(rows[:, None])[:, 0],
        collate_fn=torch.tensor,
        statistics_micro_batch_rows=2,
        optimizer=PerDomainAdamW(model.parameters(), 2),
    )
    # As adapters do, which have it later.
    mixing.model = model
    before = torch.get_rng_state()
    next(iter(mixing.data_loader()))
    # Two rows of each domain in one pass each, with dropout where it is not frozen alone.
    assert modes == [True, not training] * 2
    assert model[0].num_batches_tracked == 0
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training == training
    assert [p.grad for p in model.parameters()] == [None, None]


@dataclasses.dataclass(frozen=True)
class Compares(Method):
    """Losses before and after the update."""

    weighs_losses: bool = False

    def needs(self):
        return Needs(losses=True, losses_after=True, weighs_losses=self.weighs_losses)

    def init(self, domains, seed):
        return {"weights_K": np.full(2, 0.5), "seen_2xK": np.zeros((2, 2))}

    def observe(self, state, signals):
        return state | {"seen_2xK": np.stack([signals.loss_K, signals.loss_after_K])}


@pytest.mark.parametrize("weighs", [False, True])
@pytest.mark.parametrize("made", [False, True])
def test_losses_before_and_after_an_update_have_no_dropout(weighs, made):
    model = nn.Sequential(nn.Dropout(0.5), Mean())
    mixing = mixing_of(Compares(weighs), model)
    if made:
        next(mixing.steps())
        mixing.backward()
    else:
        batches = mixing.data_loader()
        for _, batch in zip(range(2), batches, strict=False):
            mixing.loss(model, batch)
    mixing.end_step()
    # Rows 0 and 1, and 100 and 101, squared and divided by 100, before and after no update.
    assert mixing.state["seen_2xK"] == pytest.approx(np.array([[0.005, 101.005]] * 2))


@dataclasses.dataclass(frozen=True)
class OfOne(Method):
    """Rows and the update of `a` alone; of a domain without rows it knows nothing."""

    def needs(self):
        return Needs(gramian=True)

    def init(self, domains, seed):
        return {"weights_K": np.array([1.0, 0.0])}

    def gradient_coefficients(self, state, signals):
        return np.diag(signals.gram_KxK) / np.nansum(np.diag(signals.gram_KxK))


def test_a_domain_without_rows_needs_no_coefficient():
    mixing = mixing_of(OfOne())
    next(mixing.steps())
    mixing.backward()
    # The mean of -2 x / 100 over 0, 1, 2 and 3, and that of x^2 / 100.
    assert mixing.model.w.grad.item() == pytest.approx(-0.03)
    mixing.end_step()
    of_losses = {n: loss for n, loss in mixing.metrics().items() if "loss" in n}
    assert of_losses == {"mixing/loss/a": pytest.approx(0.035)}


def test_moments_of_a_skipped_update_move_nothing_later(caplog):
    model = Mean()
    optimizer = PerDomainAdamW(model.parameters(), 2, lr=0.5)
    rows = dict.fromkeys("ab", [1.0] * 4)
    mixing = Mixing("adatask", MixedDataset(rows, 4), model, losses, optimizer=optimizer)
    for step in itertools.islice(mixing.steps(), 2):
        mixing.backward()
        mixing.state_dict()
        if step == 1:
            optimizer.step()
        mixing.end_step()
    # Equal gradients move by the rate.
    assert model.w.item() == pytest.approx(0.5)
    mixing.state_dict()
    assert caplog.text.count("within the step, moves the optimizer's moments twice") == 2


def test_several_estimates_have_rows_of_their_own():
    mixing = mixing_of(dataclasses.replace(PIKE, every=100, first=0, rows=4, estimates=2))
    trained(mixing)
    assert mixing.fresh_positions_K.tolist() == [8, 8]
    # A row's gradient is -x / 50: those of 0 to 3 have the mean -0.03, those of 4 to 7 -0.11,
    # and the variance of both is 0.002 / 3, of which a quarter is subtracted.
    norm = mixing.metrics()["mixing/squared_norm/a"]
    assert norm == pytest.approx((0.03**2 + 0.11**2) / 2 - 0.002 / 12)


def test_the_training_loss_is_the_mean_over_rows():
    mixing = mixing_of(Fixed(weights_by_domain={"a": 1.0, "b": 3.0}))
    parts = []
    for batch in mixing.data_loader():
        parts.append(mixing.loss(mixing.model, batch).item())
        if mixing.is_step_complete:
            break
    # One row of a (0), three of b (100, 101, 102), squared and divided by 100.
    assert sum(parts) == pytest.approx((0 + 30605) / 100 / 4)
    mixing.end_step()
    assert mixing.metrics() == {
        "mixing/weight/a": 0.25,
        "mixing/weight/b": 0.75,
        "mixing/count/a": 1.0,
        "mixing/count/b": 3.0,
        "mixing/loss/a": 0.0,
        "mixing/loss/b": pytest.approx(30605 / 300),
    }


def test_the_training_loss_weighs_as_the_method_says():
    mixing = mixing_of(FAMO())
    batches = mixing.data_loader()
    found = sum(mixing.loss(mixing.model, b) for _, b in zip(range(2), batches, strict=False))
    loss_K = np.array([(0 + 1) / 200, (100**2 + 101**2) / 200])
    # z = 1/2 each: weights are inverse to the losses.
    c_K = (1 / (loss_K + 1e-8)) / (1 / (loss_K + 1e-8)).sum()
    assert found.item() == pytest.approx(float(c_K @ loss_K), rel=1e-4)


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (lambda: Mixing(PIKE, MixedDataset(DOMAINS, 4)), "PiKE measures losses or gradients"),
        (lambda: mixing_of(PIKE, latency=-1), "latency: -1"),
        (lambda: mixing_of(PIKE).data_loader(batch_size=4), "micro_batch_rows"),
        (lambda: mixing_of(PIKE).data_loader(in_order=False), "in another order than the method"),
        (lambda: mixing_of(PIKE, statistics_micro_batch_rows=0), "statistics_micro_batch_rows: 0"),
        (lambda: mixing_of(PIKE, max_norm=0), "max_norm: 0 must be positive"),
        (lambda: mixing_of(Undecorated()), r"Undecorated is no dataclass: put @dataclasses"),
        (
            lambda: Mixing("mix", MixedDataset(DOMAINS, 4, weights={"a": 1, "b": 0})),
            r"it has the weights \[1.0, 0.0\], but the method sets them",
        ),
        (lambda: mixing_of(PIKE).begin_step([torch.zeros(4)]), r"deals \[2, 2\]"),
        (lambda: mixing_of(PIKE).weigh(torch.zeros(2)), "losses without a step"),
        (lambda: mixing_of(PIKE).end_step(), "no step has begun"),
        (lambda: mixing_of(PIKE).backward(), "once for each step of"),
        (lambda: mixing_of(PiKE), r"none with settings: give, for one, PiKE\(\.\.\.\)"),
        (lambda: mixing_of(AdaTask()), "AdaTask needs an optimizer .*: give `optimizer`"),
        (lambda: mixing_of(DoReMi(reference="r")), "a frozen reference model: give `excess_fn"),
        (
            lambda: mixing_of("mix").check_validation_losses({"aa": 2.0}),
            "'aa' is unknown: did you mean 'a'",
        ),
        (lambda: mixing_of("mix", rounding="sistematic"), "rounding: 'sistematic': take largest-"),
        (lambda: mixing_of(Fixed(mixture="m")), "the weights of 'm' were not given"),
        (lambda: Mixing(PIKE, DOMAINS), "give a MixedDataset, not a dict"),
        (
            lambda: list(Mixing("famo", MixedDataset(DOMAINS, 4), loss_fn=losses).data_loader()),
            "no model to measure",
        ),
        (
            lambda: Mixing(PIKE, MixedDataset(DOMAINS, 4), None, Passes(losses), excess_fn=losses),
            "Passes have an excess_fn and a group: give them there",
        ),
    ],
)
def test_mistakes_are_told(do, said):
    with pytest.raises(InputError, match=said):
        do()


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_step_that_was_not_ended_is_told(workers):
    mixing = mixing_of("famo", latency=workers, steps=2)
    batches = iter(mixing.data_loader(num_workers=workers))
    for _ in range(2):
        mixing.loss(mixing.model, next(batches))
    with pytest.raises(InputError, match=r"step 1 is drawn before step 0 has ended.*step$"):
        next(batches)
    mixing.end_step()
    # A trainer that draws ahead has not given the losses yet.
    ahead = iter(mixing_of(Switches()).data_loader())
    with pytest.raises(InputError, match=r"step 1 is drawn before step 0 has ended.*`latency`$"):
        list(ahead)
    # A loader of a training that is over has no rows.
    mixing = mixing_of("famo", latency=workers, steps=2)
    trained(mixing, num_workers=workers)
    assert list(mixing.data_loader()) == []


@pytest.mark.parametrize("ends", [{"steps": 4}, {"ends": "first_exhausted"}])
def test_a_second_epoch_is_told(ends):
    # Four steps of five rows of each domain.
    mixing = Mixing("mix", MixedDataset({"a": [0.0] * 20, "b": [1.0] * 20}, 10, **ends))
    loader = mixing.data_loader()
    for batch in loader:
        mixing.weigh(batch)
        mixing.end_step()
    assert mixing.step == 4
    with pytest.raises(InputError, match=r"read again after all 4 steps.*without `ends`"):
        next(iter(loader))


def test_a_data_set_of_another_training_is_refused():
    dataset = MixedDataset(DOMAINS, 4, steps=1)
    first, second = (Mixing("mix", dataset) for _ in range(2))
    next(iter(first.data_loader()))
    with pytest.raises(InputError, match="give each Mixing a MixedDataset of its own"):
        next(iter(second.data_loader()))


def test_a_loop_that_is_left_begins_its_step_again():
    mixing = mixing_of("mix", latency=1)
    for _ in range(2):
        batches = iter(mixing.data_loader())
        # Both micro-batches of a step, and the first of the next one.
        for batch in [next(batches) for _ in range(3)]:
            mixing.record(batch)
            if mixing.is_step_complete:
                mixing.end_step()
    # Two rows of each domain in a step: those of step 1 are 2, 3, 102 and 103.
    assert mixing.step == 2
    assert mixing.metrics()["mixing/loss/a"] == 2.5
    assert mixing.metrics()["mixing/loss/b"] == 102.5


def test_losses_that_never_came_are_missed():
    # What counted each micro-batch as a step before: weights of 0.86 where 0.60 was right.
    mixing = mixing_of(ADO())
    batch = next(iter(mixing.data_loader()))
    mixing.loss(mixing.model, batch)
    with pytest.raises(InputError, match="1 of 2 micro-batches of step 0 gave their losses"):
        mixing.end_step()
    with pytest.raises(InputError, match="loss of each row"):
        mixing.weigh(mixing.model(batch).mean())
    with pytest.raises(InputError, match="losses: a list: give a tensor of 2 losses"):
        mixing.weigh(mixing.model(batch).tolist())


class Uniform(nn.Module):
    """Equal logits of four tokens."""

    sure = True

    def forward(self, input_ids):
        found = torch.zeros(*input_ids.shape, 4)
        if self.sure:
            # Of the second row's last token.
            found[1, -2, 3] = 1e6
        return type("Output", (), {"logits": found})


def test_losses_of_a_causal_language_model():
    ids = torch.tensor([[0, 1, 2], [1, 2, 3], [3, 3, 3]])
    labels = ids.clone()
    labels[2, 1:] = -100
    found = causal_losses(Uniform(), {"input_ids": ids, "labels": labels})
    ln4 = np.log(4)
    assert found.tolist() == pytest.approx([ln4, ln4 / 2, 0])
    # One token of the second row is worse than a reference that is sure of it, none is better.
    plain, sure = Uniform(), Uniform()
    plain.sure = False
    rows = {"input_ids": ids, "labels": labels}
    assert causal_excess(sure)(plain, rows).tolist() == pytest.approx([0, ln4 / 2, 0])
    assert causal_excess(plain)(sure, rows).tolist() == [0, 0, 0]


def test_losses_that_are_not_the_models_own_are_refused_at_each_try():
    class Smoothed(Uniform):
        config = None

        def forward(self, input_ids, labels=None):
            found = {"logits": super().forward(input_ids).logits}
            return found if labels is None else found | {"loss": torch.tensor(9.0)}

    model, ids = Smoothed(), torch.tensor([[0, 1, 2]])
    model.sure = False
    for _ in range(2):
        with pytest.raises(InputError, match=r"the loss of a row is 9 by the model and 1\.386"):
            causal_losses(model, {"input_ids": ids, "labels": ids})


def test_a_group_that_is_not_who_gets_rows_is_refused(monkeypatch):
    """As where four processes are two pairs of tensor parallelism."""
    monkeypatch.setattr(parallel, "world_size", lambda group=None: 4 if group is None else 2)
    monkeypatch.setattr(parallel, "rank", lambda group=None: 3 if group is None else 1)
    rows = {"a": [0.0] * 8, "b": [1.0] * 8}
    dealt = MixedDataset(rows, 4, place=(1, 2))
    with pytest.raises(InputError, match=r"process 1 of 2, but `group` makes this one 3 of 4"):
        Mixing("mix", dealt)
    with pytest.raises(InputError, match=r"process 3 of 4, but `group` makes this one 1 of 2"):
        Mixing("mix", MixedDataset(rows, 4), group=object())
    assert Mixing("mix", dealt, group=object()).dataset.micro_batch_rows == 2


class Experts(nn.Module):
    """Each row is for one of two experts of different sizes; `c` is for all."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Parameter(torch.zeros(n)) for n in (2, 3, 1))

    def forward(self, x_B):
        of_rows = [(self.a if x == 1 else self.b).sum() * 10 + self.c[0] * x for x in x_B]
        return torch.stack(of_rows)


def fresh(rank):
    mixing = mixing_of(dataclasses.replace(PIKE, first=0, rows=4), statistics_micro_batch_rows=4)
    return mixing.measure_and_observe_before_step().statistics


@pytest.mark.slow
def test_a_process_without_a_micro_batch_of_fresh_rows(tmp_path):
    # One micro-batch of four rows of each domain: the second process has none.
    for found in (fresh(0), *on_two_ranks(fresh, tmp_path)):
        assert found.rows_K.tolist() == [4, 4]
        # A row's gradient is -x / 50; means are over 0 to 3, and 100 to 103.
        assert found.squared_norm_K.tolist() == pytest.approx([0.03**2, 2.03**2])


def routed(rank, wrap):
    model = Experts()
    model = nn.parallel.DistributedDataParallel(model) if wrap else model
    # One row of each expert: the first process has that of `a`.
    mixing = Mixing("mix", MixedDataset({"d": [1.0, 2.0]}, 2, shuffle=False), model, losses)
    next(mixing.steps())
    mixing.backward()
    return [p.grad.tolist() for p in model.parameters()]


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [False, True])
def test_an_expert_without_tokens_on_a_process(tmp_path, wrap):
    # Means over two rows: 10 / 2 of each expert, (1 + 2) / 2 of `c`.
    expected = [[5.0] * 2, [5.0] * 3, [1.5]]
    assert on_two_ranks(routed, tmp_path, wrap) == [expected, expected]
    assert routed(0, wrap=False) == expected


def counted(rank):
    """A training whose rows of `a` have four times the targets of those of `b`."""
    labels = {"a": [1, 2, 3, 4], "b": [1, -100, -100, -100]}
    parts = {
        name: [{"x": torch.zeros(4), "labels": torch.tensor(row)}] * 8
        for name, row in labels.items()
    }
    mixing = Mixing("mix", MixedDataset(parts, 8, steps=130), delivered=True)
    for batch in mixing.data_loader():
        mixing.record(batch["x"].sum(dim=1))
        mixing.end_step()
    report = mixing.delivered.report()
    return report.rows_K.tolist(), report.tokens_K.tolist(), [f.kind for f in report.findings]


@pytest.mark.slow
def test_tokens_of_all_processes_are_counted_where_it_is_asked_for(tmp_path, caplog):
    # 130 steps of 4 rows of each domain, with 4 targets and with 1: the look at 1,024 rows warns.
    expected = ([520, 520], [2080, 520], ["documents-not-tokens"])
    assert counted(0) == expected
    (warned,) = {record.message.partition(" Tokens")[0] for record in caplog.records}
    assert "the weights act on rows (documents), not on tokens" in warned
    assert on_two_ranks(counted, tmp_path) == [expected] * 2
    assert Mixing("mix", MixedDataset(DOMAINS, 8)).delivered is None


SCALE = 2.0**12


def scaled_losses(model, rows):
    return model(rows).square().mean(dim=1)


def trained_with(batch, scaler):
    """Weights after each step, and the model, of a training with or without a scaled loss."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    rows = {name: list(torch.randn(16, 4) + shift) for name, shift in {"a": 0.0, "b": 1.0}.items()}
    method = PiKE(zeta1=0.5, zeta2=0.01, every=2, rows=4, batch=batch)
    mixing = Mixing(method, MixedDataset(rows, 8, steps=6), model, scaled_losses)
    optimizer, seen = torch.optim.SGD(model.parameters(), lr=0.1), []
    for rows_B in mixing.data_loader():
        scaler.scale(mixing.loss(model, rows_B)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        mixing.end_step()
        seen.append(mixing.metrics())
    return seen, model.weight.detach()


@pytest.mark.parametrize("batch", ["fresh", "training"])
def test_statistics_and_weights_are_those_without_a_scaler(batch):
    scaled = trained_with(batch, torch.amp.GradScaler("cpu", init_scale=SCALE))
    plain = trained_with(batch, torch.amp.GradScaler("cpu", enabled=False))
    # A power of two changes no digit.
    assert scaled[0] == plain[0]
    assert torch.equal(scaled[1], plain[1])
    assert scaled[0][-1]["mixing/variance/b"] > 0
    assert len({step["mixing/weight/b"] for step in scaled[0]}) > 1


@dataclasses.dataclass(frozen=True)
class Leans(Method):
    """Keeps its weights, whatever the losses."""

    weight: float = 0.05

    def needs(self):
        return Needs(losses=True)

    def init(self, domains, seed):
        return {"weights_K": np.array([1 - self.weight, self.weight])}

    def observe(self, state, signals):
        return state


class Deals(Leans):
    """Deals the rows itself, and asks for nothing."""

    def needs(self):
        return Needs()

    def allocate(self, state, step, b):
        return np.array([b, 0])


ROUNDED = 'its weight of 0.05 is rounded to 0 of 8 rows: write rounding="systematic"'


@pytest.mark.parametrize(
    ("method", "rounding", "told"),
    [
        (Leans(), "largest-remainder", ROUNDED),
        (Fixed(weights_by_domain={"a": 0.95, "b": 0.05}), "largest-remainder", ROUNDED),
        # 0.05 x 8 rows: two rows in five steps.
        (Leans(), "systematic", None),
        (Leans(0.1), "largest-remainder", None),
        # What was chosen, or is measured only, misses nothing.
        (Leans(0.0), "largest-remainder", None),
        (Deals(), "largest-remainder", None),
    ],
)
def test_a_weight_that_is_always_rounded_to_no_row_is_told_once(caplog, method, rounding, told):
    model = Mean()
    dataset = MixedDataset(DOMAINS, 8, micro_batch_rows=8, steps=210)
    mixing = Mixing(method, dataset, model, losses, rounding=rounding)
    for batch in mixing.data_loader():
        mixing.loss(model, batch)
        mixing.end_step()
    warned = [r.getMessage() for r in caplog.records if "had no row" in r.getMessage()]
    assert len(warned) == (told is not None)
    if told:
        assert warned[0].startswith("step 99: b had no row in the last 100 steps: ")
        assert told in warned[0]
