"""A method's factors of the domains' losses in a step."""

import dataclasses

from pike_mixing.arrays import Floats
from pike_mixing.interface import Method, State
from pike_mixing.torch.fitness import measures_batch
from pike_mixing.torch.measuring import Measuring
from pike_mixing.torch.signals import all_reduce
from pike_mixing.torch.step_record import StepRecord


def coefficients(
    method: Method, state: State, step: int, at: StepRecord, measuring: Measuring
) -> Floats | None:
    """The factors c_K, from what the method wants to know of the batch before its passes.

    What was measured stays in the record.

    Args:
        method: The method.
        state: Its state before the step.
        step: 0-based step.
        at: The step's rows.
        measuring: Measures them.

    Returns:
        Factors of the domains' mean losses; None: their shares of the batch.
    """
    needs, wanted = method.needs(), measures_batch(method, step)
    seen = at.signals(step)
    if needs.weighs_losses:
        at.before_K = measuring.losses(at.domains_of, at.micro_batches)
        seen = dataclasses.replace(seen, loss_K=at.before_K)
    seen = all_reduce(seen, measuring.group)
    if needs.gramian or wanted:
        size = measuring.micro_batch if wanted else measuring.dataset.micro_batch
        pieces_K = measuring.pieces(at.domains_of, at.micro_batches, size)
        if needs.gramian:
            at.gram_KxK, measured = measuring.gramian(pieces_K)
        else:
            measured = measuring.statistics(pieces_K)
        if wanted:
            at.statistics = measured
        seen = dataclasses.replace(seen, gram_KxK=at.gram_KxK, loss_K=measured.loss_K)
    if needs.gramian:
        return method.combine(state, seen)
    return method.loss_weights(state, seen)
