"""Work shared out among processes or threads, whose results come in the work's order."""

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


def in_processes(
    call: Callable[[W], R], work: Iterable[W], workers: int
) -> Generator[R, None, None]:
    """`call` of each piece of work; with one worker in this process, else in as many others.

    Memory holds `AHEAD` results per worker at most.

    Raises:
        KilledError: a process was killed. What `call` raises passes.
    """
    if workers == 1:
        yield from map(call, work)
        return
    # Spawned, not forked: threads of other libraries do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        max_workers=workers, mp_context=context, initializer=_end_with_parent
    ) as pool:
        try:
            yield from _in_order((pool.submit(call, piece) for piece in work), AHEAD * workers)
        except BrokenProcessPool as error:
            raise KilledError(
                f"one of {workers} worker processes was killed, perhaps for want of memory: start "
                "again with fewer --workers; finished work is kept"
            ) from error


def in_threads(call: Callable[[W], R], work: Iterable[W], workers: int) -> Generator[R, None, None]:
    """`call` of each piece of work in as many threads, which do not keep the process from ending.

    Raises:
        Exception: what `call` raises passes, that of the first piece in order that fails.
    """
    return _in_order((_in_thread(call, piece) for piece in work), workers)


def _in_order(begun: Iterable[Future[R]], ahead: int) -> Generator[R, None, None]:
    """The results of calls, of which so many are begun and not yet taken at most."""
    waiting: deque[Future[R]] = deque()
    try:
        for future in begun:
            waiting.append(future)
            if len(waiting) == ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _in_thread(call: Callable[[W], R], piece: W) -> Future[R]:
    future: Future[R] = Future()

    def run() -> None:
        try:
            future.set_result(call(piece))
        except BaseException as error:
            future.set_exception(error)

    future.set_running_or_notify_cancel()
    # Unlike an executor's threads it is not waited for when nobody wants its result any more.
    threading.Thread(target=run, daemon=True).start()
    return future


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
