"""What a finder is given and what it gives back.

Shapes: K domains, N proxy runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from pike_mixing.arrays import Array, Floats


@dataclass(frozen=True)
class Proxy:
    """One finished proxy run."""

    name: str
    """Name under which the experiment knows the run."""
    weights_K: Floats | None = None
    """The static mixture that it trained on, summing to 1; None when its weights moved."""
    loss_K: Floats | None = None
    """Validation loss of each domain, or of each of the finder's `losses`, after the last step,
    nats per token."""
    state: Mapping[str, Array] | None = None
    """State of its mixing method after the last step."""
    token_loss: Sequence[Floats] | None = None
    """For each of the losses, that of each validation token, nats: of proxies of one domain."""


@dataclass(frozen=True)
class Found:
    """A mixture, and what tells how far to trust it."""

    weights_K: Floats
    """Not negative, summing to 1."""
    diagnostics: dict[str, Any]
    """JSON values by name; losses and errors in nats per token."""


class Finder(Protocol):
    """Settings of one way to find a mixture."""

    about: ClassVar[str]
    """What it does, in one sentence."""
    reads: ClassVar[Literal["losses", "state", "predictions"]]
    """What it reads of a proxy beside its mixture; predictions: losses, and those of tokens."""
    packages: ClassVar[tuple[str, ...]]
    """What `find` imports beside NumPy: packages of the extra `finders`."""

    def find(
        self, domains: tuple[str, ...], runs: Sequence[Proxy], losses: tuple[str, ...] | None = None
    ) -> Found:
        """The mixture that the runs speak for.

        Args:
            domains: Names of the weights.
            runs: The proxy runs.
            losses: Names of the losses, which `target` weighs; the domains when absent.

        Raises:
            InputError: the runs do not suffice.
        """
        ...


class Refitter(Finder, Protocol):
    """A finder of mixtures from losses, whose fit can be repeated on other runs."""

    def refitted(
        self,
        domains: tuple[str, ...],
        runs: Sequence[Proxy],
        losses: tuple[str, ...] | None,
        found: Found,
    ) -> Floats:
        """The mixture of other runs, fitted as the one that was found: no new cross-validation.

        Raises:
            InputError: the runs do not suffice.
        """
        ...
