"""What would settle whether a method is better: more seeds, more validation text, or both."""

from collections.abc import Callable, Iterator

import duckdb

from pike_mixing.comparison.detectable import LEVEL, POWER, detection_probability, wanted_text
from pike_mixing.comparison.mean_difference import LEAST_DOCUMENTS, LEAST_SEEDS
from pipeline.results import labels
from pipeline.results.provenance import counted
from pipeline.results.selection import Row

MOST_SEEDS = 100
"""More seeds than this nobody trains."""


def validation_tokens(connection: duckdb.DuckDBPyConnection, scenario: str, model: str) -> int:
    """Tokens of validation text that each run reads in all domains."""
    ((tokens,),) = connection.execute(
        "select max(tokens) from (select sum(tokens) as tokens from validation "
        "where final and scenario = ? and model = ? group by run)",
        [scenario, model],
    ).fetchall()
    return int(tokens or 0)


def told(rows: list[Row], read: int) -> Iterator[Row]:
    """What would settle it for each method that may be better than what is chosen.

    The rows are a place's methods, each with its `verdict`, the lowest loss first; `read` counts
    the validation text's tokens.
    """
    for row in rows:
        if row["verdict"] == "better" or row["nll_difference"] >= 0:
            return
        yield _remedy(row, rows, read)


def _remedy(row: Row, rows: list[Row], read: int) -> Row:
    """What would settle whether a difference as large as the measured one is there.

    The error from documents falls with the root of their number, that from seeds with the root of
    theirs: `detectable.wanted_text` says how many times the validation text do by the seeds that
    there are. Where no text does, twice the seeds that would do without the documents' error are
    told, and the text that then does. `seeds` and `tokens`, in all, are null where they are not
    told; `text` has the remedies in words.
    """
    size, compared = -row["nll_difference"], max(1, sum(r["p"] is not None for r in rows))
    facts = {"method": row["method"], "label": row["label"], "difference": row["nll_difference"]}
    facts |= {"seeds": None, "tokens": None}
    if row["verdict"] == "few documents":
        factor = LEAST_DOCUMENTS / row["effective"]
        return facts | {
            "text": f"{factor:.1f} times the validation documents of the domain with the fewest, "
            "for a test at all; what it takes beyond that cannot be told from so few"
        }
    if row["verdict"] == "few seeds":
        return facts | {
            "text": f"{counted(LEAST_SEEDS - row['seeds'], 'more seed')}, for a test at all; how "
            "much validation text it takes can be told then"
        }
    level, error, sd = LEVEL / compared, row["nll_document_stderr"], row["nll_seed_sd"]
    seeds = _seeds(row["seeds"] + 1, lambda n: detection_probability(size, sd, n, error, level))
    factor = wanted_text(size, sd, row["seeds"], error, level)
    ways = [] if seeds is None else [counted(seeds - row["seeds"], "more seed")]
    if factor is not None:
        ways.append(_more_text(factor, read))
    if not ways:
        alone = _seeds(LEAST_SEEDS, lambda n: detection_probability(size, sd, n, 0.0, level))
        if alone is None:
            ways.append(f"more than {MOST_SEEDS} seeds")
        else:
            seeds = max(2 * alone, row["seeds"])
            factor = wanted_text(size, sd, seeds, error, level)
            told = "much more validation text" if factor is None else _more_text(factor, read)
            ways.append(f"{counted(seeds - row['seeds'], 'more seed')} and {told}")
    tokens = None if factor is None or not read else round(factor * read)
    return facts | {"seeds": seeds, "tokens": tokens, "text": ", or ".join(ways)}


def _seeds(least: int, probability: Callable[[int], float]) -> int | None:
    """The first number of seeds that finds the difference often enough, if `MOST_SEEDS` do."""
    wanted = range(least, MOST_SEEDS + 1)
    return next((seeds for seeds in wanted if probability(seeds) >= POWER), None)


def _more_text(factor: float, read: int) -> str:
    more = f" ({labels.amount(round((factor - 1) * read))} more tokens)" if read else ""
    return f"{factor:.1f} times the validation text{more}"
