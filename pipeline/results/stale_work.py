"""Work behind a database that today's code, settings or inputs would make otherwise."""

from pathlib import Path

from pipeline.planning import outdated_work


def find_stale_work(database: Path) -> list[outdated_work.WorkDifference] | None:
    """What is out of date; None where nothing can be said without the configuration at hand."""
    compared = outdated_work.compare_first_root_if_plannable(*database.absolute().parents[:2])
    return None if compared is None else list(compared.direct_differences())
