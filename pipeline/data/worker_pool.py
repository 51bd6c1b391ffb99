"""Work shared out among processes, whose results come in the work's order, few at a time."""

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from pike_mixing.errors import InputError

AHEAD = 2
"""Pieces of work per process that are begun or finished and not yet taken."""


class KilledError(InputError):
    """A process was killed from outside; what is finished is as good as before."""


W = TypeVar("W")
R = TypeVar("R")


def in_order(call: Callable[[W], R], work: Iterable[W], workers: int) -> Generator[R, None, None]:
    """`call` of each piece of work; with one worker in this process, else in as many others.

    Memory holds `AHEAD` results per worker at most.

    Raises:
        KilledError: a process was killed. What `call` raises passes.
    """
    if workers == 1:
        yield from map(call, work)
        return
    waiting: deque[Future[R]] = deque()
    # Spawned, not forked: threads of other libraries do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        max_workers=workers, mp_context=context, initializer=_end_with_parent
    ) as pool:
        try:
            for piece in work:
                waiting.append(pool.submit(call, piece))
                if len(waiting) == AHEAD * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise KilledError(
                f"one of {workers} worker processes was killed, perhaps for want of memory: start "
                "again with fewer --workers; finished work is kept"
            ) from error
        finally:
            for future in waiting:
                future.cancel()


def _end_with_parent() -> None:
    """Ends this process when the one that started it is gone.

    A worker waits for work on a pipe whose other end its fellows hold too: of a process that was
    killed it would never hear.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
