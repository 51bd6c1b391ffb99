"""What a process is asked from outside while it works: to save, or to save and end.

Batch systems say it by signals: SIGTERM before they end a job (preemption, time limit, cancelling),
another one, SIGUSR1 where nothing else is set, some time before. A signal only leaves a note; who
works looks at it where it can stop.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

STOPPED = 75
"""Exit code of a stage that was stopped by a signal and goes on when it is started again:
EX_TEMPFAIL of sysexits.h."""

STOPS = (signal.SIGTERM, signal.SIGINT)
SAVES = ("USR1", "USR2")
"""Signals that can ask for a checkpoint, without SIG."""


def reset_sigchld_to_default() -> None:
    """Has the system keep how child processes end until somebody asks, as nearly everywhere.

    Who starts this process may have it ignore SIGCHLD (`trap '' CHLD`): then nobody is told how
    its jobs have ended.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


class Interrupted(Exception):  # noqa: N818 - nothing went wrong
    """A signal ended the work; all that is worth keeping has been saved."""


class SignalState:
    """What signals have asked since the last look.

    Several processes of one run look together, and what one was asked all are.
    """

    def __init__(self, highest: Callable[[int], int] = int, *, alone: bool = True) -> None:
        """Before any signal; `highest` makes one number of those of several processes.

        Where nobody hands signals on (`alone`), a second Ctrl-C is the user's.
        """
        self._highest, self._alone = highest, alone
        self._save = False
        self._stop = 0
        self._seen = 0

    def note(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal. A second Ctrl-C does not wait for the next look.

        Of several processes each gets the first one twice: from the terminal, and from torchrun.

        Raises:
            KeyboardInterrupt: the second SIGINT.
        """
        if number not in STOPS:
            self._save = True
        elif number == signal.SIGINT and self._stop and self._alone:
            raise KeyboardInterrupt
        else:
            self._stop = number

    def take_save_or_stop_request(self) -> bool:
        """Whether a checkpoint, or the end after one, was asked for since the last call."""
        # Read and cleared before anything else: a signal that comes later is the next look's.
        save, self._save = self._save, False
        # A saving is less than any signal's number but SIGHUP's, which ends nothing here.
        self._seen = self._highest(self._stop or int(save))
        return self._seen > 0

    def raise_if_stop_taken(self) -> None:
        """Raises `Interrupted` if the request last taken was to end; the caller has saved."""
        if self._seen > 1:
            raise Interrupted(
                f"stopped by {signal.Signals(self._seen).name}; "
                "the same command goes on from the last checkpoint"
            )


@contextlib.contextmanager
def record_and_raise_sigints() -> Iterator[list[int]]:
    """Gives the SIGINTs (Ctrl-C) that came within the block, each of which still raises.

    A library in C may turn the KeyboardInterrupt into an error of its own. Where SIGINT is ignored,
    or this is not the main thread, none is noted.
    """
    noted: list[int] = []

    def record_and_raise(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield noted
        return
    with _replace_handlers(record_and_raise, signal.SIGINT):
        yield noted


@contextlib.contextmanager
def ignore_save_signal(save_on: str) -> Iterator[None]:
    """Ignores requests for a checkpoint in the block, except within `handle_signals`.

    `save_on` is USR1 or USR2. By default the signal would end the process. Before the training has
    begun there is nothing to save.
    """
    with _replace_handlers(signal.SIG_IGN, signal.Signals[f"SIG{save_on}"]):
        yield


@contextlib.contextmanager
def handle_signals(
    save_on: str = "USR1", highest: Callable[[int], int] = int, *, alone: bool = True
) -> Iterator[SignalState]:
    """Takes note of signals inside the block; outside of it they do what they did before.

    `save_on` asks for a checkpoint: USR1 or USR2. `highest` and `alone` are as in `SignalState`. In
    a thread that is not the main one nothing is noted: signals are the main thread's.
    """
    signals = SignalState(highest, alone=alone)
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    with _replace_handlers(signals.note, *STOPS, signal.Signals[f"SIG{save_on}"]):
        yield signals


@contextlib.contextmanager
def _replace_handlers(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    """Handles signals otherwise inside the block."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
