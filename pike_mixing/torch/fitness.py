"""What a method wants of a training loop, and whether one outside the pipeline gives it."""

from pike_mixing.errors import InputError
from pike_mixing.interface import Method


def measures(method: Method) -> bool:
    """Whether a method wants passes over the model beside the training."""
    needs = method.needs()
    asked = (needs.statistics, needs.gramian, needs.weighs_losses, needs.losses_after)
    return any(asked) or needs.validation is not None


def measures_batch(method: Method, step: int) -> bool:
    """Whether a method wants gradient statistics of the rows of a step."""
    due = method.needs().statistics
    return due is not None and not due.fresh and due.due(step)


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
    if measures(method) and not has_losses:
        raise InputError(
            f"{name} measures losses or gradients: give `loss_fn(model, rows)`, the loss of each "
            "row (for a causal language model: pike_mixing.torch.causal_losses)"
        )
