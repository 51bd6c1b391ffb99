"""Work shared out among threads, whose results come in the work's order, few at a time.

Threads suffice: fetching, and encoding by SentencePiece, happen outside Python's lock.
"""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from typing import TypeVar

W = TypeVar("W")
R = TypeVar("R")


def in_order(call: Callable[[W], R], work: Iterable[W], workers: int) -> Generator[R, None, None]:
    """`call` of each piece of work, so many at once, begun or finished and not yet taken.

    Raises:
        Exception: what `call` raises passes, that of the first piece in order that fails.
    """
    waiting: deque[Future[R]] = deque()
    for piece in work:
        waiting.append(_begun(call, piece))
        if len(waiting) == workers:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _begun(call: Callable[[W], R], piece: W) -> Future[R]:
    future: Future[R] = Future()

    def run() -> None:
        try:
            future.set_result(call(piece))
        except BaseException as error:
            future.set_exception(error)

    # Unlike an executor's threads it is not waited for when nobody wants its result any more.
    threading.Thread(target=run, daemon=True).start()
    return future
