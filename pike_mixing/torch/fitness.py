"""Whether a training loop outside the pipeline gives what a method wants."""

from pike_mixing.errors import InputError
from pike_mixing.interface import Method


def refuse_unfit(method: Method, *, has_losses: bool) -> None:
    """Makes sure that a method can run beside any training.

    Args:
        method: The method.
        has_losses: Whether there is a function for the loss of each row.

    Raises:
        InputError: it cannot.
    """
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
