"""Whether a training loop outside the pipeline gives what a method wants."""

from pike_mixing.errors import InputError
from pike_mixing.interface import Facts, Method
from pike_mixing.registry import make


def fit(method: Method | str, facts: Facts | None, *, has_losses: bool) -> Method:
    """The method, which can run beside any training.

    Args:
        method: The method, or the name of one without settings.
        facts: Sizes and budget, for methods that ask for them.
        has_losses: Whether there is a function for the loss of each row.

    Raises:
        InputError: it cannot, or it is no method.
    """
    method = make(method) if isinstance(method, str) else method
    if not isinstance(method, Method):
        name = method.__name__ if isinstance(method, type) else "ScaleFreePiKE"
        raise InputError(f"method: {method!r} is none with settings: give, for one, {name}(...)")
    method = method if facts is None else method.informed(facts)
    needs, name = method.needs(), type(method).__name__
    if needs.moments_per_domain:
        raise InputError(
            f"{name} needs an optimizer with moments for each domain, which only the pipeline's "
            "loop has: train with another rule"
        )
    if needs.reference:
        raise InputError(
            f"{name} needs a frozen reference model, which only the pipeline's loop has: run it "
            "there, and give the mixture that it finds to Fixed"
        )
    if needs.passes() and not has_losses:
        raise InputError(
            f"{name} measures losses or gradients: give `loss_fn(model, rows)`, the loss of each "
            "row (for a causal language model: pike_mixing.torch.causal_losses)"
        )
    return method
