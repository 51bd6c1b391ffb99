"""How many items, or seeds, it takes to show a difference between two methods.

Counting items answers: will another draw of items tell these two models apart? Only seeds answer
whether the methods differ, since another seed gives another model. What was measured (discordance,
seed_sd, design_effect) stands in the database's table accuracy_tests.
"""

import bisect
import math
from typing import Any

from pike_mixing.comparison.detectable import detection_probability
from pike_mixing.comparison.distributions import normal_quantile
from pike_mixing.comparison.mean_difference import LEAST_SEEDS
from pike_mixing.errors import InputError, refuse
from pipeline.runtime import presentation

MOST_SEEDS = 10_000
LEAST = 1e-6
"""Smallest difference, in points: its square is no zero."""
TEXT = """\
For a difference of {difference:g} {points} (power {power:g}, level {level:g}, two-sided):
  paired     {paired_items:,} items, the same for both methods
  unpaired   {unpaired_items:,} items for each method
  seeds      {counted}
Items tell two models apart, not two methods: another seed gives another model."""


def unpaired_items(difference: float, accuracy: float, power: float, level: float) -> int:
    """Items that each of two methods needs, when they answer different ones.

        n = (z(level) + z(power))^2 * 2 a (1 - a) / D^2

    Args:
        difference: D, the difference to be shown, a share of 1.
        accuracy: a, how often a method is right.
        power: Probability that the test finds it.
        level: Two-sided level of the test.
    """
    quantiles = normal_quantile(level) + normal_quantile(2 - 2 * power)
    return math.ceil(quantiles**2 * 2 * accuracy * (1 - accuracy) / difference**2)


def paired_items(difference: float, discordance: float, power: float, level: float) -> int:
    """Items that two methods need which answer the same ones, under McNemar's test (Connor 1987).

        n = (z(level) sqrt(q) + z(power) sqrt(q - D^2))^2 / D^2

    Args:
        difference: D, the difference to be shown, a share of 1.
        discordance: q, the share of items on which just one of the two is right, at least D.
        power: Probability that the test finds it.
        level: Two-sided level of the test.
    """
    null = normal_quantile(level) * math.sqrt(discordance)
    other = normal_quantile(2 - 2 * power) * math.sqrt(discordance - difference**2)
    return math.ceil((null + other) ** 2 / difference**2)


def paired_seeds(difference: float, seed_sd: float, power: float, level: float) -> int:
    """Seeds that it takes when items are so many that they no longer matter.

    The smallest number at which the test over seeds (`pike_mixing.comparison.detectable`) finds the
    difference with probability `power`.

    Args:
        difference: D, the difference to be shown.
        seed_sd: Standard deviation of the seeds' differences, in the same unit.
        power: Probability that the test finds it.
        level: Two-sided level of the test.

    Raises:
        InputError: more than `MOST_SEEDS` would be needed.
    """
    if not seed_sd:
        return LEAST_SEEDS

    def enough(seeds: int) -> bool:
        return detection_probability(difference, seed_sd, seeds, 0.0, level) >= power

    if not enough(MOST_SEEDS):
        raise InputError(f"more than {MOST_SEEDS:,} seeds would be needed: ask for more difference")
    numbers = range(LEAST_SEEDS, MOST_SEEDS)
    return LEAST_SEEDS + bisect.bisect_left(numbers, True, key=enough)


def power(
    given: float,
    accuracy: float = 50.0,
    discordance: float = 20.0,
    seed_sd: float | None = None,
    design_effect: float = 1.0,
    power: float = 0.8,
    level: float = 0.05,
    format: str = "text",
) -> str:
    """How many items and seeds a difference needs.

    Args:
        given: The difference, in percentage points.
        accuracy: How often a method is right, in percent.
        discordance: On how many items two methods differ, in percent.
        seed_sd: Standard deviation of the seeds' differences, in points.
        design_effect: By how much items that share documents inflate the variance.
        power: Probability that the test finds the difference.
        level: Two-sided level of the test.
        format: text or json.

    Raises:
        InputError: a number out of its range.
    """
    problems = [
        f"{name} is {value:g}: it must lie between {low:g} and {high:g}"
        for name, value, low, high in (
            ("--difference", given, LEAST, 100),
            ("--accuracy", accuracy, 0, 100),
            ("--power", power, 0.5, 1),
            ("--level", level, 0, 1),
        )
        if not low < value < high
    ]
    if not given <= discordance <= 100:
        problems.append(
            f"the discordance is {discordance:g}%: it must lie between the difference "
            f"({given:g}) and 100, as methods that differ by {given:g} points differ on "
            "at least so many items; give --discordance"
        )
    if seed_sd is not None and seed_sd < 0:
        problems.append(f"--seed-sd is {seed_sd:g}: it cannot be negative")
    if design_effect < 1:
        problems.append(f"--design-effect is {design_effect:g}: it must be at least 1")
    refuse(problems)
    share = given / 100
    alone = math.ceil(design_effect * unpaired_items(share, accuracy / 100, power, level))
    paired = math.ceil(design_effect * paired_items(share, discordance / 100, power, level))
    count = None if seed_sd is None else paired_seeds(given, seed_sd, power, level)
    facts: dict[str, Any] = {"paired_items": paired, "unpaired_items": alone, "seeds": count}
    arguments: dict[str, Any] = {"difference": given, "power": power, "level": level}
    text = TEXT.format(
        **{**arguments, **facts},
        points="point" if given == 1 else "points",
        counted="unknown: give --seed-sd"
        if count is None
        else f"{count:,} of each method, with items enough that they do not matter",
    )
    return presentation.shown(format, arguments | facts, lambda: text)
