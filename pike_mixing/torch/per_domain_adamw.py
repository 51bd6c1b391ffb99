"""AdamW with moments of each domain's own: the optimizer of AdaTask (Yang et al. 2023).

    optimizer = PerDomainAdamW(model.parameters(), domains=K, lr=1e-3)
    for k, coefficient in ...:             # the domains of the batch
        optimizer.zero_grad()
        loss_of(k).backward()
        optimizer.update_domain_moments(k, coefficient)     # moves the moments of domain k
    optimizer.step()                       # moves the parameters, once

Memory beside the model: 2 K gradients for the moments, one for the gradient, one in passing.
"""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class ParameterMoments(NamedTuple):
    """A parameter, and both moments of a domain's gradients."""

    parameter: Tensor
    mean: Tensor
    square: Tensor


class DomainMoments(NamedTuple):
    """Of each parameter, both moments of a domain's gradients and how many it took."""

    means: list[Tensor]
    squares: list[Tensor]
    gradient_counts: list[Tensor]


class UncompiledOptimizer(torch.optim.Optimizer):
    """An optimizer that is no part of a compiled program.

    Torch keeps these methods out of one at their first call and imports its compiler to do so, for
    two seconds and 90 MB of every process. Here they are without that.
    """

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)


class PerDomainAdamW(UncompiledOptimizer):
    """theta <- theta - lr (decay theta + sum_k c_k mhat_k / (sqrt(vhat_k) + eps)).

    m_k and v_k are Adam's moments of the gradients of domain k alone, with the bias corrections of
    the domain's own number of gradients. State of a parameter: `step`, the K numbers of gradients,
    and for each domain k that had rows `exp_avg_k` and `exp_avg_sq_k`, in shards where the
    parameter is (FSDP2). With several processes each takes the gradient of all rows.
    """

    steps_all_domains = False
    """Whether domains whose gradients were not taken step, too, with a coefficient of 0."""

    def __init__(
        self,
        params: Iterable[Any],
        domains: int,
        *,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        """Begins with moments of 0.

        Args:
            params: Parameters, or groups of them, as every optimizer of torch takes them.
            domains: Number K of the domains.
            lr: Learning rate.
            betas: Decays of both moments.
            eps: Denominator offset.
            weight_decay: Decoupled weight decay.
        """
        rates = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, rates)
        self.domains = domains
        self._taken: dict[int, float] = {}
        """Coefficients of the next step by domain."""

    def forget_taken_coefficients(self) -> None:
        """Before a step: domains taken for one that was skipped, as by a GradScaler, move none."""
        self._taken.clear()

    @torch.no_grad()
    def update_domain_moments(self, domain: int, coefficient: float) -> None:
        """Moves a domain's moments by the gradient that lies in the parameters; once a step.

        The gradient stays there. The coefficient is c_k of the domain in the next step.
        """
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            parameters = _trainable_parameters(group)
            if not parameters:
                continue
            gradients = [p.grad for p in parameters if p.grad is not None]
            assert len(gradients) == len(parameters), "a parameter has no gradient to take"
            means, squares, counts = self._get_or_create_moments(parameters, domain)
            torch._foreach_lerp_(means, gradients, 1 - beta1)
            torch._foreach_mul_(squares, beta2)
            torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
            for count in counts:
                count += 1
        self._taken[domain] = coefficient

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Decays the parameters and moves them along the moments of the domains just taken.

        The closure makes the trainer's own pass, whose gradient has no part in it.
        """
        with torch.enable_grad():
            result = None if closure is None else closure()
        assert self._taken, "no domain's gradient was taken since the last step"
        for group in self.param_groups:
            parameters = _trainable_parameters(group)
            if not parameters:
                continue
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
            for domain in range(self.domains) if self.steps_all_domains else self._taken:
                for n, own in self._moments_by_gradient_count(parameters, domain).items():
                    self._update_parameters(group, own, n, self._taken.get(domain, 0.0))
        self._taken.clear()
        return result

    def _moments_by_gradient_count(
        self, parameters: list[Tensor], domain: int
    ) -> dict[int, list[ParameterMoments]]:
        """The parameters by how many gradients of a domain they took: late ones took fewer."""
        result: dict[int, list[ParameterMoments]] = {}
        means, squares, counts = self._get_or_create_moments(parameters, domain)
        moments = map(ParameterMoments, parameters, means, squares)
        for own, n in zip(moments, torch.stack(counts).tolist(), strict=True):
            result.setdefault(n, []).append(own)
        return result

    def _update_parameters(
        self,
        group: dict[str, Any],
        moments: list[ParameterMoments],
        domain_gradients_so_far: int,
        step_coefficient: float,
    ) -> None:
        """Steps parameters of a group along the moments of a domain, in place."""
        if domain_gradients_so_far == 0:
            # They begin to train after the gradient was taken.
            return
        beta1, beta2 = group["betas"]
        parameters, means, squares = map(list, zip(*moments, strict=True))
        denominators = torch._foreach_sqrt(squares)
        torch._foreach_div_(denominators, (1 - beta2**domain_gradients_so_far) ** 0.5)
        torch._foreach_add_(denominators, group["eps"])
        rate = group["lr"] * step_coefficient / (1 - beta1**domain_gradients_so_far)
        torch._foreach_addcdiv_(parameters, means, denominators, -rate)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Like every optimizer's, with the numbers of gradients on the CPU, where they are read."""
        super().load_state_dict(state_dict)
        for state in self.state.values():
            state["step"] = state["step"].cpu()

    def _get_or_create_moments(self, parameters: list[Tensor], domain: int) -> DomainMoments:
        """The domain's own, which begin at 0."""
        names = (f"exp_avg_{domain}", f"exp_avg_sq_{domain}")
        states = [self.state[p] for p in parameters]
        for p, state in zip(parameters, states, strict=True):
            if "step" not in state:
                state["step"] = torch.zeros(self.domains, dtype=torch.int64)
            for name in names:
                if name not in state:
                    state[name] = torch.zeros_like(p)
        means, squares = ([state[name] for state in states] for name in names)
        return DomainMoments(means, squares, [state["step"][domain] for state in states])


def _trainable_parameters(group: dict[str, Any]) -> list[Tensor]:
    return [p for p in group["params"] if p.requires_grad]
