"""What to train with: the decision that an experiment allows, how sure it is, and what is open.

A method counts as better, or worse, than the baseline where the paired test over three seeds or
more says so after Holm's correction for all methods of that scenario and size. Nothing else is
decided, and nothing where a domain has too few validation documents: then equal shares (the
baseline) stay. They stay, too, where what is shown is little.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import yaml

from pike_mixing.apportion import apportion
from pike_mixing.comparison.detectable import POWER, detection_probability, wanted_item_factor
from pike_mixing.comparison.mean_difference import LEAST_DOCUMENTS, LEAST_SEEDS, LEVEL
from pike_mixing.errors import InputError, names_text
from pike_mixing.setting_messages import unknown_name_message
from pipeline.results import labels, number_marks
from pipeline.results.database_reader import (
    Row,
    given_or_default_database,
    log_database_and_staleness,
    open_explaining_missing_views,
    query_rows,
)
from pipeline.results.loss_tests import requested_methods
from pipeline.runtime import output_formats
from pipeline.runtime.output_formats import count_with_noun
from pipeline.runtime.programs import program_command

MOST_LINES = 10
"""Lines of a block; the others fold."""
FEWEST_TOLD = 2
"""Of documents worth fewer equal ones, nobody can tell how many times as many are enough."""
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


def evidence_needed_to_beat_baseline(
    rows_lowest_loss_first: list[Row], read_tokens: int
) -> Iterator[Row]:
    """What would settle it for each method that may be better than what is chosen.

    The rows are a place's methods, each with its `verdict`, the lowest loss first; `read_tokens`
    counts the validation text's tokens.
    """
    for row in rows_lowest_loss_first:
        if row["verdict"] == "better" or row["nll_difference"] >= 0:
            return
        yield _evidence_needed_against_baseline(row, rows_lowest_loss_first, read_tokens)


def _evidence_needed_against_baseline(
    row: Row, rows_tested_together: list[Row], read_tokens: int
) -> Row:
    """What would settle whether a difference as large as the measured one is there.

    The error from documents falls with the root of their number, that from seeds with the root of
    theirs: `detectable.wanted_item_factor` says how many times the validation text do by the seeds
    that there are. Where no text does, twice the seeds that would do without the documents' error
    are told, and the text that then does. `seeds` and `tokens`, in all, are null where they are not
    told; `text` has the remedies in words.
    """
    size = -row["nll_difference"]
    compared = max(1, sum(r["p"] is not None for r in rows_tested_together))
    facts = {"method": row["method"], "label": row["label"], "difference": row["nll_difference"]}
    facts |= {"seeds": None, "tokens": None}
    if row["verdict"] == "few documents":
        factor = LEAST_DOCUMENTS / row["effective"]
        # Lengths so unequal are mostly those of a few scraps: of more text the factor is another.
        more = f"{factor:.1f} times the" if row["effective"] >= FEWEST_TOLD else "more"
        return facts | {
            "text": f"{more} validation documents of the domain with the fewest, for a test at "
            "all; what it takes beyond that cannot be told from so few"
        }
    if row["verdict"] == "few seeds":
        return facts | {
            "text": f"{count_with_noun(LEAST_SEEDS - row['seeds'], 'more seed')}, for a test at "
            "all; how much validation text it takes can be told then"
        }
    level, error, sd = LEVEL / compared, row["nll_document_stderr"], row["nll_seed_sd"]
    seeds = _fewest_sufficient_seeds(
        row["seeds"] + 1, lambda n: detection_probability(size, sd, n, error, level)
    )
    factor = wanted_item_factor(size, sd, row["seeds"], error, level)
    ways = [] if seeds is None else [count_with_noun(seeds - row["seeds"], "more seed")]
    if factor is not None:
        ways.append(_more_validation_text_phrase(factor, read_tokens))
    if not ways:
        alone = _fewest_sufficient_seeds(
            LEAST_SEEDS, lambda n: detection_probability(size, sd, n, 0.0, level)
        )
        if alone is None:
            ways.append(f"more than {MOST_SEEDS} seeds")
        else:
            seeds = max(2 * alone, row["seeds"])
            factor = wanted_item_factor(size, sd, seeds, error, level)
            told = (
                "much more validation text"
                if factor is None
                else _more_validation_text_phrase(factor, read_tokens)
            )
            ways.append(f"{count_with_noun(seeds - row['seeds'], 'more seed')} and {told}")
    tokens = None if factor is None or not read_tokens else round(factor * read_tokens)
    return facts | {"seeds": seeds, "tokens": tokens, "text": ", or ".join(ways)}


def _fewest_sufficient_seeds(
    least: int, probability_to_detect: Callable[[int], float]
) -> int | None:
    """The first number of seeds that finds the difference often enough, if `MOST_SEEDS` do."""
    wanted = range(least, MOST_SEEDS + 1)
    return next((seeds for seeds in wanted if probability_to_detect(seeds) >= POWER), None)


def _more_validation_text_phrase(factor: float, read_tokens: int) -> str:
    more = (
        f" ({labels.amount_in_words(round((factor - 1) * read_tokens))} more tokens)"
        if read_tokens
        else ""
    )
    return f"{factor:.1f} times the validation text{more}"


FIXED = ("mix", "fixed", "temperature", "unimax", "single")
"""Rules that do nothing but fill every batch in the same shares."""
SHARE_TOLERANCE = 0.005
"""Shares that differ by less are as good as the baseline's."""
LEAST_GAIN = 0.005
"""Nats, about half a percent of perplexity: a smaller gain is told, and is no reason to change."""
DIFFERENCES = """
    select d.*, nll_p as p, nll_p_holm as p_holm
    from method_differences as d
    join methods as m on d.method = m.method
    join scenarios as s on d.scenario = s.scenario
    join experiment as e on d.against = e.baseline
    where d.nll_high is not null
    order by s.position, d.scenario, d.model, d.nll_difference, m.position
"""
"""Those of the mean loss to the baseline, the lowest of a scenario and model first."""
PARTS = 10_000
"""Shares are told in ten-thousandths, which sum to 1."""
MOST_NAMED = 4
"""More domains of little text, or methods and domains of an alarm, are counted, not named."""
NEVER_MOVED = "never-moved"
ALARMS = {
    NEVER_MOVED: "the method never changed how many rows a domain had in a batch, so its runs "
    "trained with its initial weights",
    "effective-domains": "the sampling weights collapsed onto few domains",
    "no-rows": "a domain had no row for many steps",
    "epochs": "a domain's text was read more often than the limit (4 times by default)",
    "nan-signal": "a gradient statistic was not finite, so the method left a weight as it was",
    "worse": "a domain's held-out loss rose above its lowest",
}
"""What each kind of alarm means, the kinds in the order in which they are printed."""
RAISED = """
    select a.kind, r.method, count(distinct a.run) as runs, any_value(t.of_runs) as of_runs,
        list(distinct a.domain) filter (where a.domain is not null) as domains
    from alarms as a
    join runs as r using (run)
    join methods as m on r.method = m.method
    join (select scenario, model, method, count(*) as of_runs from runs group by all) as t
        on r.scenario = t.scenario and r.model = t.model and r.method = t.method
    where r.scenario = ? and r.model = ? and (a.kind <> ? or a.step + 1 = r.steps)
    group by a.kind, r.method, m.position
    order by m.position, r.method
"""
"""Alarms of a scenario and model; `never-moved` only of whole runs, not on the way."""


def read_decisions(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """What to use in each scenario at each size where something was compared with the baseline.

    Returns:
        By place, in the experiment's order: `chosen` (a method), `decided`, the compared methods
        (`rows`, the lowest loss first, each with its `verdict`; `own`: those whose rule is a class
        of the user's), `shares` by domain, `text` in
        sentences, and `open`, what could not be told and what would settle it: more seeds, more
        tokens of validation text, or both. More training tokens need not make a difference larger:
        of them nothing is told.
    """
    named = labels.method_labels(connection)
    ((baseline, config),) = connection.execute("select baseline, config from experiment").fetchall()
    settings = json.loads(config)
    about = settings.get("scenarios", {})
    own = {
        name
        for name, values in settings.get("methods", {}).items()
        if isinstance(values, dict) and ":" in str(values.get("rule"))
    }
    # Proxy runs and other runs that serve one are not offered as a recommendation.
    asked = requested_methods(settings)
    doubts = number_marks.read_doubts_by_method(connection, "decisions")
    result = []
    differences = query_rows(connection, DIFFERENCES)
    for (scenario, model), every in itertools.groupby(differences, itemgetter("scenario", "model")):
        rows = [row for row in every if not asked or row["method"] in asked]
        _add_labels_and_verdicts(rows, named)
        better = [row for row in rows if row["verdict"] == "better"]
        decided = bool(better) and -better[0]["nll_difference"] >= LEAST_GAIN
        chosen = better[0]["method"] if decided else baseline
        facts = _settings_and_size_of_method(connection, scenario, model, chosen)
        marks = {
            mark: count
            for mark, count in doubts.get((scenario, model, chosen), {}).items()
            if mark != "unmoved"  # The alarm says it of each method.
        }
        values = about.get(scenario, {})
        compared = [row["method"] for row in rows]
        shown = {*(asked or named), baseline}
        alarms = _read_alarms_by_kind(connection, (scenario, model), shown, named)
        fewest = _domain_with_fewest_validation_documents(connection, (scenario, model), baseline)
        tokens = validation_tokens(connection, scenario, model)
        place = {
            "scenario": scenario,
            "model": model,
            "title": labels.scenario_label(
                scenario, values.get("about") if isinstance(values, dict) else None
            ),
            "size": f"{labels.amount_in_words(facts['parameters'])} parameters",
            "tokens": f"{labels.amount_in_words(facts['tokens'])} tokens",
            "baseline": baseline,
            "against": named[baseline],
            "chosen": chosen,
            "label": named[chosen],
            "decided": decided,
            "tested": sum(row["p"] is not None for row in rows),
            "rows": rows,
            "own": [row["method"] for row in rows if row["method"] in own],
            "open": [*evidence_needed_to_beat_baseline(rows, tokens)],
            "also_better": [row["label"] for row in better[1:]],
            "warnings": [
                *_small_validation_warnings(connection, facts["tokenizer"], scenario),
                *number_marks.mark_explanations(named[chosen], marks),
                *(_alarm_text(alarm, compared, named[baseline]) for alarm in alarms),
            ],
            "alarms": alarms,
            "fewest": fewest,
        } | _shares_and_rule_of_method(
            connection, (scenario, model), chosen, baseline, facts["settings"]
        )
        result.append(place | {"text": list(decision_sentences(place))})
    return result


def _add_labels_and_verdicts(rows: list[Row], named: Mapping[str, str]) -> None:
    """Adds to each row its label and what it shows."""
    for row in rows:
        row["label"] = named[row["method"]]
        if row["nll_difference"] == row["nll_stderr"] == 0:
            row["verdict"] = "equal"
        elif row["effective"] < LEAST_DOCUMENTS:
            row["verdict"] = "few documents"
        elif row["p"] is None:
            row["verdict"] = "few seeds"
        elif row["p_holm"] >= LEVEL:
            row["verdict"] = "not decided"
        else:
            row["verdict"] = "better" if row["nll_difference"] < 0 else "worse"


def _settings_and_size_of_method(
    connection: duckdb.DuckDBPyConnection, scenario: str, model: str, method: str
) -> dict[str, Any]:
    """Settings and size of a method's runs; those that a grid gave are among the method's."""
    row = query_rows(
        connection,
        "select settings, chosen, parameters, tokens, tokenizer from runs "
        "left join chosen_settings using (run) "
        "where scenario = ? and model = ? and method = ? order by run limit 1",
        *(scenario, model, method),
    )[0]
    settings = json.loads(row["settings"])
    settings["method"] |= json.loads(row["chosen"] or "{}")
    return row | {"settings": settings}


def _drawn_shares(
    connection: duckdb.DuckDBPyConnection,
    place: tuple[str, str],
    method: str,
    share: str = "sum(count) / sum(sum(count)) over (partition by run)",
) -> dict[str, float]:
    """Each domain's share of the method's rows, mean over its seeds."""
    result = query_rows(
        connection,
        "select w.domain, avg(w.share order by w.share) as share "
        f"from (select run, domain, {share} as share "
        "from weights group by run, domain) as w join runs as r using (run) "
        "join domains as d using (scenario, domain) "
        "where r.scenario = ? and r.model = ? and r.method = ? "
        "group by w.domain, d.position order by d.position",
        *(*place, method),
    )
    return {row["domain"]: row["share"] for row in result}


def _shares_and_rule_of_method(
    connection: duckdb.DuckDBPyConnection,
    place: tuple[str, str],
    method: str,
    baseline: str,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """The method's shares, a fixed mixture's as they were set, and its rule as settings.

    fixed: whether the shares are all that it does: a rule that never moved a row trained on them.
    own_shares: whether they may be why it is better. A rule may change gradients or order alone.
    is_target: whether they are those by which the methods are judged.
    """
    ((moved,),) = connection.execute(
        "select count(*) from runs where scenario = ? and model = ? and method = ? "
        "and run not in (select run from alarms where kind = 'never-moved')",
        (*place, method),
    ).fetchall()
    fixed = (settings["rule"] in FIXED and not settings["method"].get("objective")) or not moved
    of_rows = ["avg(weight order by weight)"] if fixed else []
    drawn = _drawn_shares(connection, place, method, *of_rows)
    others = _drawn_shares(connection, place, baseline)
    own = {"rule": settings["rule"], **settings["method"]}
    judged = dict(
        connection.execute(
            "select domain, target / sum(target) over () from domains where scenario = ?", place[:1]
        ).fetchall()
    )
    result = {
        "fixed": fixed,
        "rule": own,
        "is_target": fixed
        and len({*judged.values()}) > 1
        and all(abs(share - judged[name]) < SHARE_TOLERANCE for name, share in drawn.items()),
        "own_shares": fixed
        or method == baseline
        or any(abs(drawn[name] - others[name]) >= SHARE_TOLERANCE for name in drawn),
    }
    if own == {"rule": "mix"}:
        return result | {"shares": dict.fromkeys(drawn, 1 / len(drawn))}
    parts_K = apportion(np.array([*drawn.values()]), PARTS).tolist()
    shares = {domain: n / PARTS for domain, n in zip(drawn, parts_K, strict=True)}
    if fixed:
        result["rule"] = {"rule": "fixed", "weights_by_domain": shares}
    return result | {"shares": shares}


def _domain_with_fewest_validation_documents(
    connection: duckdb.DuckDBPyConnection, place: tuple[str, str], against: str
) -> Row:
    """The domain whose validation documents, in tests against a method, count as the fewest."""
    return query_rows(
        connection,
        "select t.domain, min(t.effective) as effective from loss_tests as t "
        "join domains as d using (scenario, domain) "
        "where t.scenario = ? and t.model = ? and t.against = ? and d.target > 0 "
        "group by t.domain order by effective, t.domain limit 1",
        *(*place, against),
    )[0]


def _read_alarms_by_kind(
    connection: duckdb.DuckDBPyConnection,
    place: tuple[str, str],
    methods: Collection[str],
    named: Mapping[str, str],
) -> list[Row]:
    """Each kind of alarm that runs of these methods raised, with the methods and the domains."""
    found = [
        row | {"label": named[row["method"]]}
        for row in query_rows(connection, RAISED, *place, NEVER_MOVED)
        if row["method"] in methods
    ]
    told = ("method", "label", "runs", "of_runs")
    result = []
    for kind in ALARMS:
        rows = [row for row in found if row["kind"] == kind]
        if rows:
            raised = [{key: row[key] for key in told} for row in rows]
            domains = sorted({domain for row in rows for domain in row["domains"] or ()})
            result.append({"kind": kind, "methods": raised, "domains": domains})
    return result


def _alarm_text(alarm: Row, compared: Sequence[str], against: str) -> str:
    """A kind of alarm in a sentence; `compared` are the methods compared with `against`."""
    runs = [f"{m['label']} ({m['runs']} of {m['of_runs']} runs)" for m in alarm["methods"]]
    text = f"{ALARMS[alarm['kind']]} (alarm {alarm['kind']}): {names_text(runs, most=MOST_NAMED)}"
    if alarm["domains"]:
        text += f"; domains: {names_text(alarm['domains'], most=MOST_NAMED)}"
    still = {m["method"] for m in alarm["methods"] if m["runs"] == m["of_runs"]}
    if alarm["kind"] == NEVER_MOVED and still.issuperset(compared):
        text += f". No method changed the rows: initial weights were compared with {against}"
    return f"{text[0].upper()}{text[1:]}."


def _alarm_summary_line(decisions: Sequence[Row], database: Path) -> str:
    """How many runs raised each kind of alarm, and the command that names them; "" without any."""
    runs = Counter[str]()
    for alarm in (alarm for decision in decisions for alarm in decision["alarms"]):
        runs[alarm["kind"]] += sum(method["runs"] for method in alarm["methods"])
    if not runs:
        return ""
    counts = ", ".join(
        f"{kind} in {count_with_noun(runs[kind], 'run')}" for kind in ALARMS if runs[kind]
    )
    command = f"{program_command('pike')} advise {database}"
    return f"Alarms: {counts}: `{command}` names the methods and domains"


def _small_validation_warnings(
    connection: duckdb.DuckDBPyConnection, tokenizer: str, scenario: str
) -> list[str]:
    """In a sentence the domains whose validation text packing found to be too little."""
    small = query_rows(
        connection,
        "select d.domain, c.documents, "
        "(l.facts ->> '$.splits.validation.largest_share')::double as largest "
        "from domains as d "
        "join corpora as c on c.source = d.domain and c.split = 'validation' "
        "join lineage as l on l.artifact = 'corpus/' || c.tokenizer || '/' || c.source "
        "where d.scenario = ? and c.tokenizer = ? and d.target > 0 "
        "and json_array_length(l.facts -> '$.warnings') > 0 order by d.position",
        *(scenario, tokenizer),
    )
    if not small:
        return []
    told = (
        f"{row['domain']} ({count_with_noun(row['documents'], 'document')}, the largest "
        f"{row['largest']:.0%} of its tokens)"
        for row in small
    )
    return [
        f"The validation text of {names_text(told, most=MOST_NAMED)} is little or uneven, so that "
        "the interval may be too narrow: another text may decide otherwise. Cut long documents, "
        "add text, or raise packing.validation_share."
    ]


def decision_sentences(decision: Row) -> Iterator[str]:
    """A decision in sentences: what to use, against what, how sure, and what is not told."""
    against = decision["against"]
    compared = (
        f"{count_with_noun(decision['tested'], 'method')} with "
        f"{count_with_noun(LEAST_SEEDS, 'seed')} or more"
    )
    best = next((row for row in decision["rows"] if row["verdict"] == "better"), None)
    if not decision["decided"]:
        yield (
            f"Keep equal shares ({against})."
            if decision["baseline"] == "mix"
            else f"Keep {against}."
        )
    else:
        what = f"the shares of {decision['label']}" if decision["fixed"] else decision["label"]
        yield f"Train on the target itself: {what}." if decision["is_target"] else f"Use {what}."
    if best is not None:
        p = best["p_holm"]
        yield (
            f"The validation loss of {best['label']} is {-best['nll_difference']:.3f} nats per "
            f"token below that of {against} (95% interval {-best['nll_high']:.3f} to "
            f"{-best['nll_low']:.3f}, {count_with_noun(best['seeds'], 'seed')}; p "
            f"{'< 0.001' if p < 0.001 else f'= {p:.3f}'}, corrected for {compared})."
        )
        if not decision["decided"]:
            yield f"Less than {LEAST_GAIN} nats is too little to change for."
        if decision["also_better"]:
            also = ", ".join(decision["also_better"])
            yield f"Also shown to be better than {against}: {also}. Which is best was not tested."
    else:
        yield (
            f"Of {compared} none is shown to have a lower validation loss."
            if decision["tested"]
            else f"The validation text of {decision['fewest']['domain']} tells as much as "
            f"{decision['fewest']['effective']:.1f} documents of equal length would. An answer "
            f"needs {LEAST_DOCUMENTS}: these runs cannot say which method is better."
            if any(row["effective"] < LEAST_DOCUMENTS for row in decision["rows"])
            else f"No method has {count_with_noun(LEAST_SEEDS, 'seed')}, the least for an answer."
        )
    yield (
        f"This was measured with models of {decision['size']} after {decision['tokens']}. It may "
        "be different for larger models or longer training: these runs cannot say."
    )
    if decision["decided"] and decision["rule"].keys() & {"zeta1", "zeta2"}:
        yield (
            "Its coefficients zeta1 and zeta2 depend on the model: choose them anew for yours "
            "(docs/library.md, Coefficients)."
        )


def difference_text(row: Row, footnote_signs: str = "") -> str:
    """A difference of losses, its 95% interval and seeds: -0.038 (-0.055 to -0.020, 10 seeds)."""
    ends = f"{row['nll_low']:+.3f} to {row['nll_high']:+.3f}"
    number = f"{row['nll_difference']:+.3f}{footnote_signs}"
    return f"{number} ({ends}, {count_with_noun(row['seeds'], 'seed')})"


NAME = "advised"
"""What the method is called in a configuration."""


def advise(
    database: Path | None,
    scenario: str | None = None,
    model: str | None = None,
    format: str = "text",
) -> str:
    """What to train with, by the runs of a database, in all scenarios and sizes or those asked for.

    format: text or json; summary is a line for each scenario and size; yaml, python or interleave
    are the lines to copy.
    """
    database = given_or_default_database(database)
    with open_explaining_missing_views(database) as connection:
        log_database_and_staleness(connection, database)
        every = read_decisions(connection)
    for key, wanted in (("scenario", scenario), ("model", model)):
        known = dict.fromkeys(place[key] for place in every)
        if wanted is not None and wanted not in known:
            raise InputError(unknown_name_message(wanted, known, f"--{key}"))
        every = [place for place in every if wanted in (None, place[key])]
    if not every:
        raise InputError(
            f"{database} has no two methods with one seed in common and two validation documents "
            "of each domain: train the baseline too, or add validation text (`pike corpus`)"
        )
    if format in ("text", "json", "summary"):
        shown = [p for p in every if any(row["seeds"] >= LEAST_SEEDS for row in p["rows"])] or every
        rest = ", ".join(f"{p['scenario']} / {p['model']}" for p in every if p not in shown)
        parts = [*map(decision_line if format == "summary" else decision_text, shown)]
        parts += [f"Too few seeds for a verdict: {rest}"] if rest else []
        if format == "summary" and (line := _alarm_summary_line(shown, database)):
            parts.append(line)
        gap = "\n" if format == "summary" else "\n\n"
        return output_formats.json_csv_or_text(format, every, lambda: gap.join(parts))
    if len(every) > 1:
        names = ", ".join(f"{p['scenario']} {p['model']}" for p in every)
        raise InputError(
            f"--format {format} is for one decision, here are several: give --scenario and --model "
            f"of {names}"
        )
    return copyable_snippets(every[0])[format]


def decision_line(decision: Row) -> str:
    """A decision in one line: what it advises, why, and how rules of the user's own do."""
    (row,) = [row for row in decision["rows"] if row["method"] == decision["chosen"]] or [None]
    loss = f" Loss minus that of {decision['against']}: {difference_text(row)}." if row else ""
    # Why nothing is changed; the last sentence is the same of every decision.
    none = "" if row else "".join(f" {sentence}" for sentence in decision["text"][1:-1])
    own = "".join(
        f" {one['label']}: {one['verdict']} ({one['nll_difference']:+.3f})."
        for one in decision["rows"]
        if one["method"] in decision["own"] and one is not row
    )
    return f"{decision['scenario']} / {decision['model']}: {decision['text'][0]}{loss}{none}{own}"


def decision_text(decision: Row) -> str:
    """A decision, one of `advice.read_decisions`, as a terminal shows it."""
    lines = [
        f"{decision['scenario']} / {decision['model']}: {decision['title']}, {decision['size']}"
    ]
    lines += [f"  {sentence}" for sentence in decision["text"]]
    told = ", ".join(f"{domain} {100 * share:.2f}%" for domain, share in decision["shares"].items())
    lines.append(f"  {'Shares' if decision['fixed'] else 'Shares that it drew'}: {told}")
    lines.append(
        f"  Loss minus that of {decision['against']}, nats per token (95% interval of each alone): "
        "verdict after Holm's correction"
    )
    lines += [
        f"    {row['label']} {difference_text(row)}: {row['verdict']}; lower in "
        f"{row['seeds_better']} of {row['seeds']}"
        for row in decision["rows"][:MOST_LINES]
    ]
    if more := decision["rows"][MOST_LINES:]:
        lines.append(
            f"    {count_with_noun(len(more), 'method')} with a higher loss: the report has all"
        )
    lines += [
        f"  Open: {row['label']} ({row['difference']:+.3f}); to settle it: {row['text']}"
        for row in decision["open"][:3]
    ]
    lines += [f"  Warning: {warning}" for warning in decision["warnings"]]
    return "\n".join(lines)


def copyable_snippets(decision: Row) -> dict[str, str]:
    """Lines to copy: a configuration's, Python's, and those of `datasets.interleave_datasets`."""
    rule, settings = decision["rule"]["rule"], {**decision["rule"]}
    del settings["rule"]
    arguments = "".join(f", {name}={value!r}" for name, value in settings.items())
    # `interleave_datasets` refuses a set that it never draws from, or seeks its end for ever.
    shares = {domain: share for domain, share in decision["shares"].items() if share}
    note = "" if decision["fixed"] else "  # drawn on average; as fixed shares they were not tried"
    interleave = (
        "# parts: by domain, rows that are packed to one length, as the shares are of tokens\n"
        f"shares = {shares!r}{note}\n"
        "mixed = interleave_datasets([parts[name] for name in shares],\n"
        "    probabilities=list(shares.values()), stopping_strategy='all_exhausted', seed=0)"
        if decision["own_shares"]
        else f"# {decision['label']} drew the shares of {decision['against']}, so no mixture does "
        "what it does:\n# take the rule (python, yaml)."
    )
    rule_line = yaml.safe_dump(
        decision["rule"], default_flow_style=True, width=10_000, sort_keys=False
    )
    return {
        "yaml": f"methods:\n  {NAME}: {rule_line.strip()}",
        "python": f"from pike_mixing import make\n\nmethod = make({rule!r}{arguments})",
        "interleave": interleave,
    }
