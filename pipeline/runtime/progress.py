"""Progress of a stage: a bar on a terminal, plain lines now and then in a log."""

import sys
import time
from collections.abc import Mapping
from typing import Self

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Counts work done; `with Progress("pack code", total=n, unit="doc") as p: p.add(1, mb=3)`."""

    def __init__(
        self, label: str, *, total: int | None, unit: str, done: float = 0, quiet: bool = False
    ) -> None:
        self._label, self._total, self._unit, self._done = label, total, unit, done
        self._began = self._last = (time.monotonic(), done)
        self._bar = (
            tqdm(desc=label, total=total, unit=unit, initial=done, dynamic_ncols=True)
            if sys.stderr.isatty() and not quiet
            else None
        )
        self._quiet = quiet

    def add(self, amount: float, **shown: object) -> None:
        """Advances by `amount`; `shown` are name=value pairs printed beside the count."""
        self._done += amount
        if self._bar is not None:
            self._bar.set_postfix(shown, refresh=False)
            self._bar.update(amount)
        elif not self._quiet and time.monotonic() - self._last[0] >= SECONDS_BETWEEN_LINES:
            # What compiles at its start is slower there: the last seconds tell what is to come.
            self._write_line(self._last, shown)

    def _write_line(self, since: tuple[float, float], shown: Mapping[str, object]) -> None:
        self._last = (time.monotonic(), self._done)
        (began, done), (now, _) = since, self._last
        rate = (self._done - done) / max(now - began, 1e-9)
        share = f"/{self._total:,}" if self._total else ""
        # A total of rounded megabytes may be passed.
        more = max((self._total or 0) - self._done, 0)
        left = f", {more / rate:.0f} s left" if self._total and rate else ""
        facts = "".join(f", {name} {value}" for name, value in shown.items())
        message = (
            f"{self._label}: {self._done:,.0f}{share} {self._unit}, {rate:,.1f}/s{left}{facts}"
        )
        sys.stderr.write(message + "\n")
        sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Ends the bar, or prints the last line of the log when the work is complete."""
        if self._bar is not None:
            self._bar.close()
        elif kind is None and not self._quiet:
            self._write_line(self._began, {})
