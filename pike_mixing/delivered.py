"""What reaches the model: rows and tokens of each domain, counted and compared with the plan.

    delivered = Delivered({"web": 0.7, "code": 0.3})
    for batch in delivered.watch(loader, domain="domain"):
        ...
    print(delivered.report().text())

Tests, each over all domains, hold their level whatever the loader's order, as long as its rows are
drawn with the plan's shares or nearer to them than by chance:

- rows: P(X >= n a) <= exp(-n KL(a || p)), the Chernoff bound of the exact binomial tail, which
  holds for the mean p of shares that change, too; domains and sides by Bonferroni.
- tokens: the steps' surplus, tokens of a domain minus its share of the step's, has the mean 0. Its
  Student t over the steps, with Johnson's correction for skewness (1978), is compared with the
  normal distribution by Wallace's approximation. The correction takes surpluses away that are
  nearly the same in all steps but one, so that Hoeffding's inequality judges them too, by the
  tokens of the largest step. Domains whose tokens came in few long rows are not judged.
- rows that have not come yet: no count of the short rows tells of rare long ones. A domain that
  lacks D tokens beside the others' may still get them by D / L rows of L tokens; that none of these
  has come yet has a chance of exp(-D / L). Tokens are off only where a domain lacks some by
  both tests: another's surplus is its lack. L is `longest`, else 100 of the domain's mean rows.
- end: a domain that came `r` times before its last row, and then not at all where it was to come
  `m` times more by that rate. Under any such loader P <= exp(-m / 2), for r of 20 or more.

Shapes: K domains.
"""

import argparse
import dataclasses
import json
import logging
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from pike_mixing import by_domain, foreign_json
from pike_mixing.arrays import Array, Floats
from pike_mixing.errors import InputError, refuse
from pike_mixing.setting_messages import unknown_name_message

log = logging.getLogger("pike_mixing")

T = TypeVar("T")

LEVEL = 0.01
"""Probability of a false finding, of one report or of all looks of a training together."""
FEWEST_STEPS = 60
"""Steps below which nothing is said of tokens."""
FEWEST_EFFECTIVE = 50
"""Steps' worth of tokens, (sum T)^2 / sum T^2, below which a domain's tokens are not judged."""
LONGEST_ROW = 100.0
"""A row that has not come yet may be so many times longer than the mean of its domain's.

Lengths of web pages, code and books lie within this factor of their mean, but for one row in
thousands; a training that cuts its rows allows fewer, see `longest`.
"""
FEWEST_ROWS = 20
"""Rows of a domain below which its end is not told from chance."""
MOST_EMPTY = 60
"""Rows of a domain from which on it is a fault that none has a token."""
FIRST_LOOK = 64
"""Rows after which a training looks first; then each time that they have doubled."""


SUMS = (
    *("rows", "tokens", "expected", "others", "last_step", "expected_at_last", "tokens_at_last"),
    *("surplus", "squares", "cubes", "token_squares"),
)
"""What is summed up by domain, or remembered of a domain's last step."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One way in which what came is not the plan."""

    kind: Literal["ended", "never-came", "documents-not-tokens", "packing-or-filtering"]
    domain: str | None
    """The domain; None where it is about all of them."""
    message: str
    """What was seen, and what to do."""


@dataclasses.dataclass(frozen=True)
class Report:
    """Shares that came beside those of the plan."""

    domains: tuple[str, ...]
    of: Literal["rows", "tokens"]
    steps: int
    rows_K: Floats
    tokens_K: Floats
    """Zeros where tokens were not counted."""
    plan_K: Floats
    """Mean share of the plan, over the rows that came."""
    findings: tuple[Finding, ...]
    unjudged: tuple[str, ...] = ()
    """Domains without a verdict on their tokens: too few steps or rows, or they lack no more than
    a few long rows may still bring."""

    def text(self) -> str:
        """A table and the findings."""
        width, counts = max(6, *map(len, self.domains)), bool(self.tokens_K.any())
        total, tokens = self.rows_K.sum(), max(self.tokens_K.sum(), 1)
        lines = [f"{'domain':<{width}}    plan    rows" + ("  tokens" if counts else "")]
        for k, domain in enumerate(self.domains):
            cells = [self.plan_K[k], self.rows_K[k] / max(total, 1)]
            cells += [self.tokens_K[k] / tokens] if counts else []
            lines.append(f"{domain:<{width}}" + "".join(f"  {cell:6.4f}" for cell in cells))
        lines.append(f"{total:.0f} rows in {self.steps} steps; the plan is of {self.of}")
        if self.unjudged and self.steps < FEWEST_STEPS:
            lines.append(f"no verdict on tokens yet: it needs {FEWEST_STEPS} steps")
        elif self.unjudged:
            few = ", ".join(self.unjudged)
            lines.append(
                f"no verdict yet on tokens of {few}: too few rows, or longer ones may still come"
            )
        elif not self.findings:
            lines.append("as planned, as far as so many rows can tell")
        return "\n".join(lines + [f"{f.kind}: {f.message}" for f in self.findings])


class Delivered:
    """Counts of rows and tokens, and their comparison with the plan."""

    def __init__(
        self,
        plan: Mapping[str, float],
        *,
        of: Literal["rows", "tokens"] = "tokens",
        longest: float | None = None,
    ) -> None:
        """Begins without a row.

        Args:
            plan: Shares by domain; where they change, `add` is given those of each step.
            of: Whether they are shares of tokens or of rows.
            longest: Most tokens that a row can have: the length that rows are cut or packed to.
                With it, a wrong share is known after fewer rows.

        Raises:
            InputError: no domains, shares that are none, or a `longest` that is no count.
        """
        if of not in ("rows", "tokens"):
            raise InputError(f"of: {of!r} is neither 'rows' nor 'tokens'")
        if longest is not None and not 0 < longest < math.inf:
            raise InputError(f"longest: {longest!r} is no number of tokens above 0")
        self.domains, self.of, self.longest = tuple(plan), of, longest
        self._share_K = by_domain.shares_in_order(plan, self.domains, "plan")
        self._looks, self._next = 0, FIRST_LOOK
        self.steps, self._most = 0, 0.0
        K = len(self.domains)
        self._sums = {name: np.zeros(K) for name in SUMS}

    def add(
        self,
        rows: Mapping[str, float],
        tokens: Mapping[str, float] | None = None,
        plan: Mapping[str, float] | None = None,
    ) -> None:
        """Counts one step.

        Args:
            rows: Rows of each domain; those without may be missing.
            tokens: Tokens of each domain; needed where the plan is of tokens.
            plan: Shares of this step, where they change.

        Raises:
            InputError: a domain that the plan does not name, counts that are none, or no tokens.
        """
        if tokens is None and self.of == "tokens":
            raise InputError("tokens: the plan is of tokens: count them, or give of='rows'")
        row_K = self._counts_in_order(rows, "rows")
        token_K = self._counts_in_order(tokens or {}, "tokens")
        share_K = self._share_K
        if plan is not None:
            share_K = by_domain.shares_in_order(plan, self.domains, "plan of a step")
        if self.longest and (token_K > row_K * self.longest).any():
            raise InputError(
                f"longest: {dict(tokens or {})} tokens of {dict(rows)} rows are more than "
                f"{self.longest:g} a row: give the most that a row can have"
            )
        sums, surplus_K = self._sums, token_K - token_K.sum() * share_K
        self.steps += 1
        self._most = max(self._most, float(token_K.sum()))
        sums["rows"] += row_K
        sums["tokens"] += token_K
        sums["expected"] += row_K.sum() * share_K
        sums["others"] += row_K * (1 - share_K)
        sums["surplus"] += surplus_K
        sums["squares"] += surplus_K**2
        sums["cubes"] += surplus_K**3
        sums["token_squares"] += token_K**2
        came_K = row_K > 0
        sums["expected_at_last"][came_K] = sums["expected"][came_K]
        sums["tokens_at_last"][came_K] = (sums["tokens"] - sums["surplus"])[came_K]
        sums["last_step"][came_K] = self.steps

    def _counts_in_order(self, values: Mapping[str, float], setting: str) -> Floats:
        unknown = [name for name in values if name not in self.domains]
        refuse([unknown_name_message(d, self.domains, f"{setting} of a step") for d in unknown])
        placed_K = np.array([float(values.get(d, 0)) for d in self.domains])
        if not (np.isfinite(placed_K) & (placed_K >= 0)).all():
            raise InputError(f"{setting}: {dict(values)} are no counts")
        return placed_K

    def add_rows(
        self,
        domains: Iterable[Any],
        tokens: Iterable[float] | None = None,
        plan: Mapping[str, float] | None = None,
    ) -> None:
        """Counts one step by its rows.

        Args:
            domains: Domain of each row: its name, or its number in the plan.
            tokens: Tokens of each row.
            plan: As for `add`.
        """
        names = [self.name_of(domain) for domain in domains]
        lengths = None if tokens is None else [float(n) for n in tokens]
        if lengths is not None and len(lengths) != len(names):
            raise InputError(f"tokens: {len(lengths)} for {len(names)} rows: give one for each")
        rows, sums = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
        for n, name in enumerate(names):
            rows[name] += 1
            sums[name] += 0 if lengths is None else lengths[n]
        self.add(rows, None if lengths is None else sums, plan)

    def name_of(self, domain: Any) -> str:
        """The name of a domain that is given by its name, or by its number in the plan.

        Raises:
            InputError: the plan has no such domain.
        """
        if isinstance(domain, str):
            if domain not in self.domains:
                raise InputError(unknown_name_message(domain, self.domains, "domain"))
            return domain
        try:
            number = operator.index(domain)
        except TypeError:
            number = -1
        if not 0 <= number < len(self.domains):
            raise InputError(f"domain: {domain!r} is no number of {len(self.domains)} domains")
        return self.domains[number]

    def add_batch(
        self,
        batch: T,
        domain: str | Callable[[T], Iterable[Any]] = "domain",
        tokens: Callable[[T], Iterable[float]] | None = None,
    ) -> None:
        """Counts a batch as one step, and warns in the log `pike_mixing`.

        Args:
            batch: A dictionary of columns, or a list of rows that are dictionaries.
            domain: Name of the column that holds each row's domain, or a function of the batch:
                `lambda batch: batch.pop("domain")` where the model takes no such column.
            tokens: A function of the batch: tokens of each row. When absent: labels that are not
                -100, else the attention mask's, else the lengths of `input_ids`.

        Raises:
            InputError: the batch has no such column, or one of its rows is of an unknown domain.
        """
        names = domain(batch) if callable(domain) else _batch_column(batch, domain)
        count_tokens = tokens or (trained_tokens_of_rows if self.of == "tokens" else None)
        lengths = count_tokens(batch) if count_tokens is not None else None
        self.add_rows(names, lengths)
        self.warn_if_due()

    def watch(
        self,
        loader: Iterable[T],
        domain: str | Callable[[T], Iterable[Any]] = "domain",
        tokens: Callable[[T], Iterable[float]] | None = None,
    ) -> "CountedLoader[T]":
        """A loader with the same batches, length and attributes, which counts what it gives.

        Args:
            loader: Of batches; it may be read again, as for another epoch.
            domain: As for `add_batch`.
            tokens: As for `add_batch`.
        """
        return CountedLoader(loader, lambda batch: self.add_batch(batch, domain, tokens))

    def warn_if_due(self) -> list[Finding]:
        """Findings of a look that is due, which are written to the log; none between two looks.

        All looks together find something false with a probability of `LEVEL`.
        """
        if self._sums["rows"].sum() < self._next:
            return []
        level = LEVEL / ((self._looks + 1) * (self._looks + 2))
        self._looks, self._next = self._looks + 1, 2 * self._next
        found = list(self._findings(level))
        for finding in found:
            log.warning("delivered, step %d: %s", self.steps, finding.message)
        return found

    def report(self) -> Report:
        """Shares and findings so far."""
        sums = self._sums
        rows, judged_K = max(sums["rows"].sum(), 1), self._has_enough_tokens_by_domain()
        if self.of == "tokens" and sums["rows"].any():
            level = LEVEL / (3 * len(self.domains))
            is_off_K, lacks_K = self._token_share_p_values() <= level, sums["surplus"] < 0
            may_come_K = self._long_rows_to_come_p_values() > level
            judged_K = judged_K & ~(is_off_K & lacks_K & may_come_K)
        open_K = ~judged_K & ((sums["expected"] > 0) | (self.steps == 0))
        few = [self.domains[k] for k in np.flatnonzero(open_K)]
        return Report(
            self.domains,
            self.of,
            self.steps,
            sums["rows"].copy(),
            sums["tokens"].copy(),
            sums["expected"] / rows if self.steps else self._share_K,
            tuple(self._findings(LEVEL)),
            tuple(few) if self.of == "tokens" else (),
        )

    def _has_enough_tokens_by_domain(self) -> Array:
        """Whether enough tokens of each domain came for a verdict [K]."""
        sums = self._sums
        effective_K = sums["tokens"] ** 2 / sums["token_squares"].clip(min=1)
        return (self.steps >= FEWEST_STEPS) & (effective_K >= FEWEST_EFFECTIVE)

    def _findings(self, level: float) -> Iterator[Finding]:
        """What differs, by its cause: an end explains a wrong share, and lengths do."""
        sums = self._sums
        if not sums["rows"].any():
            return
        # Rows, tokens and ends share the level.
        level /= 3 * len(self.domains)
        off_K = off_rows_K = self._row_share_p_values() <= level
        never_p_K = np.exp(-sums["expected"])
        if self.of == "tokens":
            never_p_K = self._long_rows_to_come_p_values()
            # A domain has too many tokens only where another one lacks some for good.
            off_K = self._token_share_p_values() <= level
            off_K = off_K & (off_K & (never_p_K <= level)).any()
        of_domains = [
            *self._ended_findings(self._no_row_since_last_p_values() <= level),
            *self._never_came_findings((sums["rows"] == 0) & (never_p_K <= level)),
            *(self._no_tokens_findings() if self.of == "tokens" else ()),
        ]
        yield from of_domains
        if of_domains or not off_K.any():
            return
        if self.of == "tokens" and not off_rows_K.any():
            yield Finding("documents-not-tokens", None, self._row_lengths_message())
        else:
            yield Finding("packing-or-filtering", None, self._wrong_shares_message(off_K))

    def _ended_findings(self, ended_K: Array) -> Iterator[Finding]:
        for k in np.flatnonzero(ended_K):
            message = (
                f"{self.domains[k]} ended: no row of it came after step "
                f"{self._sums['last_step'][k]:.0f} of {self.steps}; let its source begin again, "
                "give it more text, or plan for its end"
            )
            yield Finding("ended", self.domains[k], message)

    def _never_came_findings(self, never_K: Array) -> Iterator[Finding]:
        for k in np.flatnonzero(never_K):
            message = f"{self.domains[k]} is planned and never came: check its path and its name"
            yield Finding("never-came", self.domains[k], message)

    def _no_tokens_findings(self) -> Iterator[Finding]:
        sums = self._sums
        is_empty_K = (sums["rows"] >= MOST_EMPTY) & (sums["tokens"] == 0) & (sums["expected"] > 0)
        for k in np.flatnonzero(is_empty_K):
            message = (
                f"{self.domains[k]}: {sums['rows'][k]:.0f} rows came, and none of their tokens "
                "counts: something cuts them off or masks all their labels (-100); look at the "
                "labels of one of its rows"
            )
            yield Finding("packing-or-filtering", self.domains[k], message)

    def _row_share_p_values(self) -> Floats:
        """Chance of rows at least so far from the plan, at most [K]."""
        sums = self._sums
        n = sums["rows"].sum()
        a_K, p_K = sums["rows"] / n, (sums["expected"] / n).clip(0, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            kl_K = np.where(a_K > 0, a_K * np.log(a_K / p_K), 0)
            kl_K = kl_K + np.where(a_K < 1, (1 - a_K) * np.log((1 - a_K) / (1 - p_K)), 0)
        return np.asarray((2 * np.exp(-n * kl_K)).clip(max=1))

    def _token_share_p_values(self) -> Floats:
        """Chance of tokens at least so far from the plan [K]; 1 where too few came."""
        sums, n = self._sums, self.steps
        if n < FEWEST_STEPS:
            return np.ones(len(self.domains))
        mean_K = sums["surplus"] / n
        variance_K = (sums["squares"] / n - mean_K**2).clip(min=0) * n / (n - 1)
        # A plan that is met to a rounding has no spread, and no surplus either.
        variance_K = np.maximum(variance_K, (1e-9 * max(sums["tokens"].sum() / n, 1)) ** 2)
        third_K = sums["cubes"] / n - 3 * mean_K * sums["squares"] / n + 2 * mean_K**3
        moved_K = third_K / variance_K * (1 / (6 * n) + mean_K**2 / (3 * variance_K))
        # The correction may take a surplus away; it makes none of the other sign.
        skewed_K = np.where(
            mean_K > 0, (mean_K + moved_K).clip(min=0), (mean_K + moved_K).clip(max=0)
        )
        t_K = skewed_K / np.sqrt(variance_K / n)
        z_K = np.sqrt((n - 1) * np.log1p(t_K**2 / (n - 1)) * (8 * n - 7) ** 2 / (8 * n - 5) ** 2)
        chance_K = np.array([math.erfc(z / math.sqrt(2)) for z in z_K])
        bound_K = 2 * np.exp(-2 * n * (mean_K / max(self._most, 1)) ** 2)
        # Two tests share the level.
        return np.where(
            self._has_enough_tokens_by_domain(),
            (2 * np.minimum(chance_K, bound_K)).clip(max=1),
            1.0,
        )

    def _token_deficits_and_mean_row_tokens(self) -> tuple[Floats, Floats]:
        """Tokens that each domain lacks beside the others', and its mean row so far [K]."""
        sums, rows_K = self._sums, self._sums["rows"]
        # A row of a domain also raises what is planned for the domain, by its share.
        others_K = np.divide(sums["others"], rows_K, out=np.ones_like(rows_K), where=rows_K > 0)
        lack_K = -sums["surplus"].clip(max=0) / others_K.clip(min=1e-9)
        mean = sums["tokens"].sum() / rows_K.sum()
        has_K = sums["tokens"] > 0
        mean_K = np.divide(sums["tokens"], rows_K, out=np.full_like(rows_K, mean), where=has_K)
        return lack_K, mean_K

    def _long_rows_to_come_p_values(self) -> Floats:
        """Chance that rows with the tokens that a domain lacks have not come yet, at most [K]."""
        lack_K, mean_K = self._token_deficits_and_mean_row_tokens()
        return np.exp(-lack_K / (self.longest or (LONGEST_ROW * mean_K).clip(min=1e-9)))

    def _no_row_since_last_p_values(self) -> Floats:
        """Chance of no row since each domain's last, at most [K]."""
        sums, rows_K = self._sums, self._sums["rows"]
        with np.errstate(divide="ignore", invalid="ignore"):
            missed_K = rows_K * (sums["expected"] / sums["expected_at_last"] - 1)
            if self.of == "tokens":
                # Shares that change may change rows and tokens at different rates, and a loader
                # that counts tokens lets a domain wait that has more than planned.
                lack_K, mean_K = self._token_deficits_and_mean_row_tokens()
                planned_K = sums["tokens"] - sums["surplus"]
                by_tokens_K = rows_K * (planned_K / sums["tokens_at_last"] - 1)
                missed_K = np.minimum(np.minimum(missed_K, by_tokens_K), lack_K / mean_K)
        return np.where(rows_K >= FEWEST_ROWS, np.exp(-np.nan_to_num(missed_K) / 2), 1.0)

    def _row_lengths_message(self) -> str:
        sums = self._sums
        mean_K = sums["tokens"] / sums["rows"].clip(min=1)
        # In proportion to the plan's shares of rows.
        weight_K = np.divide(sums["expected"], mean_K, out=0 * mean_K, where=mean_K > 0)
        weight_K /= weight_K.sum()
        lengths = ", ".join(
            f"{d} {length:.4g}" for d, length in zip(self.domains, mean_K, strict=True)
        )
        weights = " ".join(f"{d}={w:.4g}" for d, w in zip(self.domains, weight_K, strict=True))
        return (
            "the weights act on rows (documents), not on tokens: rows came as planned, tokens did "
            f"not. Tokens of a row: {lengths}. For these shares of tokens, weigh rows by "
            f"{weights}, or mix after packing"
        )

    def _wrong_shares_message(self, off_K: Any) -> str:
        came_K, plan_K = self._sums[self.of], self._sums["expected"] / self._sums["rows"].sum()
        shares = ", ".join(
            f"{self.domains[k]} {came_K[k] / came_K.sum():.4f} for {plan_K[k]:.4f}"
            for k in np.flatnonzero(off_K)
        )
        return (
            f"shares of {self.of} are not the plan's while all domains come: {shares}. Something "
            "between the weights and the model drops or joins rows (a filter, packing, removed "
            "duplicates), or the weights are not read: count again right behind the mixing"
        )


class CountedLoader(Iterable[T]):
    """A loader whose batches are counted when they are read; all else is the loader's own."""

    def __init__(self, loader: Iterable[T], count: Callable[[T], None]) -> None:
        """See `Delivered.watch`."""
        self.loader, self._count = loader, count

    def __iter__(self) -> Iterator[T]:
        """The loader's batches."""
        for batch in self.loader:
            self._count(batch)
            yield batch

    def __len__(self) -> int:
        """The loader's batches, where it has a length."""
        return len(self.loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        """The loader's: `set_epoch`, `state_dict`, `batch_size`."""
        if name == "loader":
            raise AttributeError(name)
        return getattr(self.loader, name)


def _batch_column(batch: Any, name: str) -> Iterable[Any]:
    """A column of a batch, whether it is one of columns or of rows."""
    if isinstance(batch, Mapping):
        if name in batch:
            return batch[name]
    elif isinstance(batch, Sequence) and all(isinstance(r, Mapping) and name in r for r in batch):
        return [row[name] for row in batch]
    raise InputError(
        f"domain: the batches have no column {name!r}: name the one that holds each row's domain, "
        "or give a function of the batch"
    )


def trained_tokens_of_rows(batch: Any) -> list[float]:
    """Tokens of each row of a batch: labels that count, else the attention mask, else lengths.

    Raises:
        InputError: the batch has none of these.
    """
    if isinstance(batch, Sequence) and not isinstance(batch, str):
        return [trained_tokens_of_rows({k: [v] for k, v in row.items()})[0] for row in batch]
    if "labels" in batch:
        return [float((np.asarray(row) != -100).sum()) for row in batch["labels"]]
    if "attention_mask" in batch:
        return [float(np.asarray(row).sum()) for row in batch["attention_mask"]]
    if "input_ids" in batch:
        return [float(np.asarray(row).size) for row in batch["input_ids"]]
    raise InputError(
        "tokens: the batches have no labels, attention_mask or input_ids: give a function of the "
        "batch that counts the tokens of each row"
    )


def add_command(subparsers: Any) -> None:
    """Adds the command `delivered`."""
    about = "whether a log's rows and tokens came as planned"
    command = subparsers.add_parser("delivered", help=about, description=about)
    command.set_defaults(run=report_on_log)
    about = (
        'JSON lines: {"rows": {"web": 5}, "tokens": {"web": 900}} for each step, or {"domain": '
        '"web", "tokens": 180} for each row (and "step"); other keys are passed over'
    )
    command.add_argument("log", type=Path, help=about)
    command.add_argument("--plan", nargs="+", required=True, metavar="DOMAIN=SHARE")
    about = "what the plan's shares are of (default: tokens)"
    command.add_argument("--of", choices=("tokens", "rows"), default="tokens", help=about)
    about = "most tokens of a row, such as the length that rows are cut or packed to"
    command.add_argument("--longest", type=float, metavar="TOKENS", help=about)
    command.add_argument("--format", choices=("text", "json"), default="text")
    about = "exit code 1 where something is found"
    command.add_argument("--gate", action="store_true", help=about)


def report_on_log(arguments: argparse.Namespace) -> tuple[str, int]:
    """The report on a log, and the exit code.

    Raises:
        InputError: the log cannot be read, or a line of it.
    """
    from pike_mixing.finders import options

    plan = options.parse_numbers(arguments.plan, "--plan")
    delivered = Delivered(plan, of=arguments.of, longest=arguments.longest)
    count_log(arguments.log, delivered)
    report = delivered.report()
    code = int(arguments.gate and bool(report.findings))
    if arguments.format == "text":
        return report.text(), code
    counts = {"plan": report.plan_K, "rows": report.rows_K, "tokens": report.tokens_K}
    named = {
        name: dict(zip(report.domains, values_K.tolist(), strict=True))
        for name, values_K in counts.items()
    }
    findings = [dataclasses.asdict(finding) for finding in report.findings]
    values = {"of": report.of, "steps": report.steps, **named, "findings": findings}
    return json.dumps(values, indent=2), code


BLOCK = 64
"""Rows that count as a step where a log of rows names none."""


def count_log(path: Path, delivered: Delivered) -> None:
    """Counts the lines of a log.

    Raises:
        InputError: it cannot be read, or a line is neither a step's nor a row's.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}: check the path") from None
    rows = _PendingRows(delivered)
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                rows.add_line(foreign_json.parse_json_or_value_error(line))
        except InputError as error:
            raise InputError(f"{path}, line {number}: {error}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path}, line {number}: give rows and tokens by domain, or domain and tokens of a "
                f"row ({type(error).__name__}: {error})"
            ) from None
    rows.count_as_step()
    if not delivered.steps:
        raise InputError(f"{path}: has no line: nothing was counted; check the path")


class _PendingRows:
    """Rows of a log whose step has not ended yet."""

    def __init__(self, delivered: Delivered) -> None:
        self.delivered, self.step = delivered, None
        self.names: list[str] = []
        self.lengths: list[float] = []

    def add_line(self, values: dict[str, Any]) -> None:
        """Counts a line's step, or keeps its row until its step is over."""
        if "rows" in values:
            self.delivered.add(values["rows"], values.get("tokens"), values.get("plan"))
            return
        step = values.get("step")
        if step != self.step or (len(self.names) >= BLOCK and "step" not in values):
            self.count_as_step()
        self.step = step
        self.names.append(self.delivered.name_of(values["domain"]))
        length = float(values["tokens"]) if self.delivered.of == "tokens" else 0.0
        if not 0 <= length < math.inf:
            raise InputError(f"tokens: {length} is no count")
        self.lengths.append(length)

    def count_as_step(self) -> None:
        """Counts the rows as one step."""
        if self.names:
            lengths = self.lengths if self.delivered.of == "tokens" else None
            self.delivered.add_rows(self.names, lengths)
            self.names, self.lengths = [], []
