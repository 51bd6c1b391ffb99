"""Writes to the disk while training goes on: in one thread, one piece of work after the other."""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from pipeline.runtime.signal_handler import Interrupted

log = logging.getLogger("pike")


class Writer:
    """One thread that writes, and at most one piece of work that is not done.

    What goes wrong in it is raised at the next call. Within `with`, the end waits for the last
    work, also after an error, so that nothing is written any more behind it.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "writer")
        self._pending: Future[None] | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Begins to do `work`, once that before it is done; whatever went wrong there is raised."""
        self.wait()
        self._pending = self._thread.submit(work)

    def wait(self) -> None:
        """Waits for the work that was begun; whatever went wrong in it is raised, once."""
        pending, self._pending = self._pending, None
        try:
            if pending is not None:
                pending.result()
        finally:
            # An error holds this frame: it would hold itself by it, and the files it has open.
            del pending

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Waits; with an error under way the writer's own is logged and does not replace it.

        A run that was asked to end must not say that it saved when it did not.
        """
        self._thread.shutdown()
        if kind is None or issubclass(kind, Interrupted):
            self.wait()
            return
        pending, self._pending = self._pending, None
        error = None if pending is None else pending.exception()
        if error is not None:
            # The text alone: a log may be kept, and the error holds what it had open.
            log.warning("%s", str(error))
