"""Whether a training loop gives what a method wants."""

from pike_mixing.errors import InputError
from pike_mixing.interface import Method, RunFacts
from pike_mixing.registry import make


def fit(
    method: Method | str,
    facts: RunFacts | None,
    *,
    has_losses: bool,
    has_excess: bool,
    has_moments: bool,
) -> Method:
    """The method with what the run knows.

    Args:
        method: The method, or the name of one without settings.
        facts: Sizes and budget, for methods that ask for them.
        has_losses: Whether there is a function for the loss of each row.
        has_excess: Whether there is one for the excess of each row over a reference.
        has_moments: Whether the optimizer takes the gradient of each domain.

    Raises:
        InputError: it is no method, or one of these is missing.
    """
    method = make(method) if isinstance(method, str) else method
    if not isinstance(method, Method):
        name = method.__name__ if isinstance(method, type) else "ScaleFreePiKE"
        raise InputError(f"method: {method!r} is none with settings: give, for one, {name}(...)")
    method = method if facts is None else method.for_run(facts)
    needs, name = method.needs(), type(method).__name__
    if needs.moments_per_domain and not has_moments:
        raise InputError(
            f"{name} needs an optimizer with moments for each domain: give `optimizer`, a "
            "pike_mixing.torch.PerDomainAdamW, and train with it"
        )
    if needs.reference and not has_excess:
        raise InputError(
            f"{name} needs a frozen reference model: give `excess_fn(model, rows)`, the excess of "
            "each row's loss over the reference's (for a causal language model: "
            "pike_mixing.torch.causal_excess(reference))"
        )
    if needs.passes() and not has_losses:
        raise InputError(
            f"{name} measures losses or gradients: give `loss_fn(model, rows)`, the loss of each "
            "row (for a causal language model: pike_mixing.torch.causal_losses)"
        )
    return method
