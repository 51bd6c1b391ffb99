"""What a report says beside numbers: verdicts, corpora, methods, code, versions, deviations."""

import itertools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
from markupsafe import Markup, escape

from pipeline.results.claim_tests import VERDICTS
from pipeline.results.database_reader import Row, query_rows

REPORT = Path(__file__).parent / "report"
DECISIONS = Path(__file__).parents[2] / "docs" / "decisions.md"


def mean_accuracy_test_blocks(
    connection: duckdb.DuckDBPyConnection, scenario: str, model: str
) -> list[Row]:
    """The tests of mean accuracies against the baseline: a block per shots and formulation.

    Each formulation is shown under the score that it is named after, or the paper's (per token).
    """
    result = query_rows(
        connection,
        "select t.* from baseline_tests as t join methods as m on t.method = m.method "
        "where t.scenario = ? and t.model = ? and t.task = 'mean' "
        "and t.metric not in ('answer_only', 'overlap') "
        "order by t.formulation, t.shots, "
        "t.metric <> t.formulation, t.metric <> 'per_token', t.metric, m.position",
        *(scenario, model),
    )
    blocks = []
    for _, same in itertools.groupby(result, key=lambda row: (row["formulation"], row["shots"])):
        rows = list(same)
        shown = [row for row in rows if row["metric"] == rows[0]["metric"]]
        label = (
            "formulation {formulation}, normalisation {metric}, {shots}-shot, "
            "{examples:,} items of {documents:,} documents"
        )
        blocks.append({"label": label.format(**rows[0]), "rows": shown})
    return blocks


def method_rows(connection: duckdb.DuckDBPyConnection, rules: Mapping[str, str]) -> list[Row]:
    """Every method that ran: name, what its rule does in a sentence, its scenarios by settings."""
    result = query_rows(
        connection,
        "select r.method, r.scenario, any_value(r.settings order by r.run) as settings "
        "from runs as r join methods as m using (method) join scenarios as s using (scenario) "
        "group by r.method, r.scenario, m.position, s.position order by m.position, s.position",
    )
    rows: dict[str, Row] = {}
    for row in result:
        settings = json.loads(row["settings"])
        given = {**settings["method"], **settings.get("tuned", {})}
        values = ", ".join(f"{k} {_text_or_json(v)}" for k, v in given.items())
        rule, about = settings["rule"], rules.get(settings["rule"], "")
        fresh = {"method": row["method"], "rule": rule, "about": about, "settings": {}}
        one = rows.setdefault(row["method"], fresh)
        one["settings"].setdefault(values, []).append(row["scenario"])
    return list(rows.values())


def _text_or_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def claim_groups_by_verdict(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """The paper's claims with what our runs say of them, by verdict; none without runs in parts."""
    result = query_rows(
        connection, "select claim, statement, published_verdict, verdict from claims"
    )
    if all(row["verdict"] == "not run" for row in result):
        return []
    return [
        {"verdict": verdict, "claims": same}
        for verdict in VERDICTS
        if (same := [row for row in result if row["verdict"] == verdict])
    ]


def run_group_anchor(scenario_model_method: str) -> str:
    """Where the page says how the runs of a scenario/model/method were made."""
    return f"made-{scenario_model_method.replace('/', '-')}"


def run_groups_with_lineage(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """How each number was made: runs by scenario, model and method, down to text and code."""
    result = query_rows(
        connection,
        "select r.*, l.inputs, l.sha256 as manifest_sha256, e.sha256 as evaluation_sha256, "
        "e.code_fingerprint as evaluation_code from runs as r "
        "join lineage as l on l.artifact = 'run/' || r.run "
        "left join lineage as e on e.artifact = 'evaluation/' || r.run "
        "join scenarios as s on r.scenario = s.scenario "
        "join methods as m on r.method = m.method "
        "order by s.position, r.model, m.position, r.seed",
    )
    groups: dict[str, Row] = {}
    for row in result:
        name = row["run"].rpartition("/")[0]
        settings = json.loads(row["settings"])
        shown = {k: settings[k] for k in ("rule", "method", "training", "model")}
        group = groups.setdefault(
            name, {"anchor": run_group_anchor(name), "name": name, "runs": []}
        )
        group["settings"] = json.dumps(shown, indent=1)
        group["runs"].append(row)
    return list(groups.values())


def code_rows_per_stage(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """Which code did each stage's work."""
    return query_rows(
        connection,
        "select produced_by as stage, code_fingerprint as fingerprint, code_commit as commit, "
        "count(*) as artifacts from lineage where code_fingerprint is not null "
        "and not starts_with(artifact, 'checkpoint/') group by all order by all",
    )


def source_rows(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """Where the text comes from: revision, licence, size."""
    return query_rows(
        connection,
        "select artifact[8:] as source, settings ->> '$.kind' as kind, "
        "facts ->> '$.revision' as revision, facts ->> '$.licence' as licence, "
        "cast(facts ->> '$.documents' as bigint) as documents, sha256 "
        "from lineage where starts_with(artifact, 'source/') order by artifact",
    )


def packing_warnings_and_run_alarms(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """What packing warned of, by corpus, and then the runs, by run and step."""
    return query_rows(
        connection,
        "select artifact as run, 'validation' as kind, "
        "unnest(facts ->> '$.warnings[*]') as message from lineage "
        "where starts_with(artifact, 'corpus/') order by artifact",
    ) + query_rows(
        connection,
        "select a.run, a.step, a.kind, a.domain, a.message from alarms as a "
        "join runs as r on a.run = r.run "
        "join scenarios as s on r.scenario = s.scenario "
        "join methods as m on r.method = m.method "
        "order by s.position, r.model, m.position, r.seed, a.step, a.kind, a.domain",
    )


def version_texts(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Versions that the manifests name, each once: `torch 2.13.0`."""
    result = connection.execute(
        "select distinct json_extract(facts, '$.versions') from lineage "
        "where json_exists(facts, '$.versions')"
    ).fetchall()
    return sorted({f"{k} {v}" for (text,) in result for k, v in json.loads(text).items()})


def deviation_rows() -> list[dict[str, Markup]]:
    """Decisions that differ from the paper, from `docs/decisions.md` if it is there.

    Their sections have a paragraph `Deviation from the paper: ...`.
    """
    text = DECISIONS.read_text(encoding="utf-8") if DECISIONS.is_file() else ""
    result = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        stated = re.search(r"^Deviation from the paper: (.+?)(?:\n\n|\Z)", section, re.M | re.S)
        if stated is not None:
            what = " ".join(stated[1].split())
            title = section.partition("\n")[0]
            result.append(
                {
                    "title": _code_spans_to_html(title),
                    "what": _code_spans_to_html(what[0].upper() + what[1:]),
                }
            )
    return result


def _code_spans_to_html(markdown_line: str) -> Markup:
    """A line with its `code`; links, which lead to files of the documentation, as their text."""
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", markdown_line)
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(plain))))
