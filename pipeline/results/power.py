"""How many items, or seeds, it takes to show a difference between two methods.

Counting items answers: will another draw of items tell these two models apart? Only seeds answer
whether the methods differ, since another seed gives another model.
"""

import math
import textwrap
from dataclasses import dataclass
from pathlib import Path

import duckdb

from pike_mixing.errors import InputError
from pipeline.results.selection import connect
from pipeline.statistics.distributions import NORMAL, normal_quantile, t_quantile

MOST_SEEDS = 10_000

METRIC = """
    select metric
    from accuracy_tests
    where task = $1 and metric <> 'answer_only'
    order by metric <> formulation, metric <> 'per_token', metric
    limit 1
"""
"""The task's own score, or the paper's."""
TASK = f"""
    select avg(discordance), sqrt(avg(seed_sd ^ 2)), avg(design_effect), max(examples),
        max(documents), count(*)
    from accuracy_tests as t
    join experiment as e on t.against = e.baseline
    where task = $1 and metric = ({METRIC}) and discordance > 0
"""
ACCURACY = f"""
    select avg(a.value)
    from method_accuracies as a
    join experiment as e on a.method = e.baseline
    where a.task = $1 and a.metric = ({METRIC})
"""


def unpaired_items(difference: float, accuracy: float, power: float, level: float) -> int:
    """Items that each of two methods needs, when they answer different ones.

        n = (z(level) + z(power))^2 * 2 a (1 - a) / D^2

    At D = 0.01, a = 0.5, power 0.8 and level 0.05: (1.960 + 0.842)^2 * 0.5 / 0.0001 = 39,244.

    Args:
        difference: D, the difference to be shown, a share of 1.
        accuracy: a, how often a method is right.
        power: Probability that the test finds it.
        level: Two-sided level of the test.
    """
    quantiles = normal_quantile(level) + NORMAL.inv_cdf(power)
    return math.ceil(quantiles**2 * 2 * accuracy * (1 - accuracy) / difference**2)


def paired_items(difference: float, discordance: float, power: float, level: float) -> int:
    """Items that two methods need which answer the same ones, under McNemar's test (Connor 1987).

        n = (z(level) sqrt(q) + z(power) sqrt(q - D^2))^2 / D^2

    At D = 0.01, q = 0.1, power 0.8 and level 0.05: (0.6198 + 0.2660)^2 / 0.0001 = 7,847.

    Args:
        difference: D, the difference to be shown, a share of 1.
        discordance: q, on how many items just one of the two is right; at least D.
        power: Probability that the test finds it.
        level: Two-sided level of the test.
    """
    null = normal_quantile(level) * math.sqrt(discordance)
    other = NORMAL.inv_cdf(power) * math.sqrt(discordance - difference**2)
    return math.ceil((null + other) ** 2 / difference**2)


def paired_seeds(difference: float, seed_sd: float, power: float, level: float) -> int:
    """Seeds that it takes when items are so many that they no longer matter.

    The smallest s with  D >= (t(level) + t(2 (1 - power))) * SD / sqrt(s),  two-sided quantiles of
    Student's t with s - 1 degrees. D = SD, power 0.8, level 0.05: at 10 seeds
    (2.262 + 0.883) / 3.162 = 0.995, so 10.

    Args:
        difference: D, the difference to be shown.
        seed_sd: SD of the seeds' paired differences, in the same unit.
        power: Probability that the test finds it.
        level: Two-sided level of the test.

    Raises:
        InputError: more than `MOST_SEEDS` would be needed.
    """

    def enough(seeds: int) -> bool:
        quantiles = t_quantile(level, seeds - 1) + t_quantile(2 * (1 - power), seeds - 1)
        return quantiles * seed_sd <= difference * math.sqrt(seeds)

    if not enough(MOST_SEEDS):
        raise InputError(f"more than {MOST_SEEDS:,} seeds would be needed: ask for more difference")
    few, many = 1, MOST_SEEDS
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


@dataclass(frozen=True)
class Known:
    """What is known of a task; accuracies and differences in percent."""

    accuracy: float
    discordance: float
    seed_sd: float | None
    design_effect: float
    """By how much items that share documents inflate the variance."""
    source: str


def power(
    given: float,
    task: str | None = None,
    database: Path = Path("results/pike.duckdb"),
    accuracy: float | None = None,
    discordance: float | None = None,
    seed_sd: float | None = None,
    power: float = 0.8,
    level: float = 0.05,
) -> str:
    """How many items and seeds a difference needs, in words.

    Args:
        given: The difference, in percentage points.
        task: A task of the database, from which what is not given is taken.
        database: The experiment's database.
        accuracy: How often a method is right, in percent (default: the task's, or 50).
        discordance: On how many items two methods differ, in percent (default: the task's, or 20).
        seed_sd: Standard deviation of the seeds' differences, in points (default: the task's).
        power: Probability that the test finds the difference.
        level: Two-sided level of the test.

    Raises:
        InputError: a number out of its range, or a task that the database does not compare.
    """
    known = _of_task(database, task) if task is not None else None
    source = "assumed" if known is None else known.source
    known = known or Known(50.0, 20.0, None, 1.0, source)
    used = Known(
        accuracy=known.accuracy if accuracy is None else accuracy,
        discordance=known.discordance if discordance is None else discordance,
        seed_sd=known.seed_sd if seed_sd is None else seed_sd,
        design_effect=max(1.0, known.design_effect),
        source=source,
    )
    _check(given, used, power, level)
    return _told(given, used, power, level)


def _check(difference: float, known: Known, power: float, level: float) -> None:
    problems = [
        f"{name} is {value:g}: it must lie between {low:g} and {high:g}"
        for name, value, low, high in (
            ("--difference", difference, 0, 100),
            ("--accuracy", known.accuracy, 0, 100),
            ("--power", power, 0.5, 1),
            ("--level", level, 0, 1),
        )
        if not low < value < high
    ]
    if not difference <= known.discordance <= 100:
        problems.append(
            f"the discordance is {known.discordance:g}%: it must lie between the difference "
            f"({difference:g}) and 100, as methods that differ by {difference:g} points differ on "
            "at least so many items; give --discordance"
        )
    if known.seed_sd is not None and known.seed_sd < 0:
        problems.append(f"--seed-sd is {known.seed_sd:g}: it cannot be negative")
    if problems:
        raise InputError("\n".join(problems))


def _told(difference: float, known: Known, power: float, level: float) -> str:
    share, apart = difference / 100, known.discordance / 100
    effect = known.design_effect
    alone = math.ceil(effect * unpaired_items(share, known.accuracy / 100, power, level))
    paired = math.ceil(effect * paired_items(share, apart, power, level))
    seeds = "unknown: give --seed-sd, or a task that was run with two seeds or more"
    if known.seed_sd is not None:
        count = paired_seeds(difference, known.seed_sd, power, level)
        seeds = f"{count:,} of each method, with items enough that they do not matter"
    points = "point" if difference == 1 else "points"
    spread = "" if known.seed_sd is None else f", seeds that spread by {known.seed_sd:.2f} points"
    return textwrap.dedent(
        f"""\
        For a difference of {difference:g} {points} (power {power:g}, level {level:g}, two-sided):
          paired     {paired:,} items, the same for both methods
          unpaired   {alone:,} items for each method
          seeds      {seeds}
        From an accuracy of {known.accuracy:.1f}%, {known.discordance:.1f}% of discordant items,
        a design effect of {effect:.2f}{spread}: {known.source}.
        Items tell two models apart, not two methods: another seed gives another model."""
    )


def _of_task(database: Path, task: str) -> Known:
    connection = connect(database)
    try:
        found = connection.execute(TASK, [task]).fetchone()
        level = connection.execute(ACCURACY, [task]).fetchone()
        sql = "select distinct task from accuracy_tests where task <> 'mean' order by task"
        tasks = [name for (name,) in connection.execute(sql).fetchall()]
    except duckdb.CatalogException:
        raise InputError(
            f"{database} holds no tests of accuracies: make it anew with `pike database`"
        ) from None
    finally:
        connection.close()
    assert found is not None
    assert level is not None
    discordance, seed_sd, effect, items, documents, comparisons = found
    if not comparisons or level[0] is None:
        listed = ", ".join(tasks) or "none"
        raise InputError(
            f"--task {task}: {database} compares no methods on it that differ; it has {listed}"
        )
    pairs = f"means of {comparisons} comparisons" if comparisons > 1 else "one comparison"
    source = f"{pairs} on {task}, {items:,} items of {documents:,} documents"
    return Known(level[0], discordance, seed_sd, 1.0 if effect is None else effect, source)
