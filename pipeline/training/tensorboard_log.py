"""A run's records as TensorBoard's event files, beside the records (extra `[tensorboard]`).

    tensorboard/events.out.tfevents.*

They repeat what the records hold and are no part of a run's result.
"""

from collections.abc import Mapping
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from pipeline.training.live_log import Value

FLUSH_SECONDS = 5


class Events:
    """Writes each row's numbers as scalars: `steps/loss`, `weights/weight/en`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "tensorboard"
        self._writer: SummaryWriter | None = None

    def add(self, table: str, row: Mapping[str, Value]) -> None:
        """Takes a row of any table that has steps; alarms are texts."""
        step = row.get("step")
        if not isinstance(step, int):
            return
        if self._writer is None:
            # A run that goes on repeats the steps behind its last checkpoint: hide the first try's.
            self._writer = SummaryWriter(
                str(self._folder), purge_step=step, flush_secs=FLUSH_SECONDS
            )
        domain = row.get("domain")
        behind = "" if domain is None else f"/{domain}"
        for name, value in row.items():
            if name == "message":
                self._writer.add_text(f"{table}{behind}", str(value), step)
            elif name != "step" and isinstance(value, int | float):
                self._writer.add_scalar(f"{table}/{name}{behind}", value, step)

    def close(self) -> None:
        """Writes what waits."""
        if self._writer is not None:
            self._writer.close()
