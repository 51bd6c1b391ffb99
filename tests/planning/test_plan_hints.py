"""What `pike plan` tells that is no mistake of the configuration."""

import dataclasses
import json
from pathlib import Path

import pytest
import yaml

from pike_mixing.errors import InputError
from pipeline.data import document_preview
from pipeline.data.local_files import LocalSource
from pipeline.planning import cost, plan_hints, planner
from pipeline.planning.outdated_work import PlanComparison
from pipeline.runtime import accelerators, made_from
from pipeline.runtime.atomic_files import MANIFEST

SPARE = {
    "sources": "prose",
    "tokenizers": "installed",
    "models": "nano",
    "training": "text",
    "evaluation": "standard",
    "probe": "standard",
    "methods": "pike",
    "mixtures": "doremi",
    "scenarios": "installed",
    "swarms": {"runs": 2, "seed": 0},
    "grids": {"methods": ["pike-low"], "settings": ["zeta1"]},
}


def test_all_that_is_defined_and_not_used_is_told(config):
    values = config()
    # What a grid varies is used, though no run has it.
    values["methods"]["varied"] = values["methods"]["pike-low"]
    values["grids"]["zetas"]["of"] = "varied"
    plan = planner.plan(values, "mine.yaml")
    assert plan_hints.unused_name_hints(plan, values) == []
    for section, like in SPARE.items():
        known = values.setdefault(section, {})
        # A grid and a mixture cannot have one name.
        known[f"spare-{section}"] = known[like] if isinstance(like, str) else like
    values["tasks"] = {"piqa": {"revision": "0" * 40}}
    plan = planner.plan(values, "mine.yaml")
    expected = {f"mine.yaml: {s}: defined, and used by no run: spare-{s}" for s in SPARE}
    expected.add("mine.yaml: tasks: defined, and used by no run: piqa")
    assert set(plan_hints.unused_name_hints(plan, values)) == expected
    many = {"methods": {f"m{n}": {} for n in range(10**5)}}
    (line,) = plan_hints.unused_name_hints(plan, many)
    assert line.endswith(" m18, m19 and 99,980 more")
    # What a file includes serves others, too.
    assert plan_hints.unused_name_hints(plan, {"methods": {"mix": {}}}) == []


def test_values_that_no_run_has_are_told(config):
    values = config()
    values["evaluation"]["standard"]["curves"]["seeds"] = [220, 99]
    values["probe"]["standard"]["seeds"] = [98, 99]
    values["compare"] = {"baseline": "pike-high"}
    plan = planner.plan(values, "mine.yaml")
    *told, last = plan_hints.unused_name_hints(plan, values)
    assert "compare.baseline: no run has pike-high: " in last
    assert told == [
        "mine.yaml: evaluation.standard.curves.seeds: no run of its scenarios has 99",
        "mine.yaml: probe.standard.seeds: no run of its scenarios has 98, 99",
    ]


@pytest.mark.parametrize(("steps", "told"), [(150, False), (76, False), (75, True), (25, True)])
def test_a_search_by_far_shorter_runs_is_told(config, steps, told):
    values = config()
    values["training"]["short"] = values["training"]["text"] | {"steps": steps, "warmup_steps": 2}
    values["swarms"] = {"drawn": {"runs": 2, "seed": 0, "training": "short"}}
    values["mixtures"]["best"] = {"finder": "best", "swarm": "drawn"}
    values["methods"]["found"] = {"rule": "fixed", "mixture": "best"}
    values["runs"].append(
        {"scenarios": ["installed"], "models": ["nano"], "methods": ["found"], "seeds": [0]}
    )
    plan = planner.plan(values, "mine.yaml")
    assert plan.runs["installed/nano/found/seed0"]["training"]["steps"] == 150
    lines = plan_hints.short_proxy_run_hints(plan)
    if not told:
        assert lines == []
        return
    (line,) = lines
    # 20 rows of 64 tokens.
    what = f"runs of {1280 * steps:,} tokens find it for trainings of 192,000: "
    assert line.startswith(f"mine.yaml: mixtures.best: {what}")
    # Nothing was tested of targets, nor of what reads no losses.
    values["scenarios"]["installed"]["target"] = dict.fromkeys(
        values["scenarios"]["installed"]["domains"], 1
    )
    assert plan_hints.short_proxy_run_hints(planner.plan(values, "mine.yaml")) == []


def test_a_grid_of_runs_of_several_lengths_is_refused(config):
    values = config()
    values["training"]["short"] = values["training"]["text"] | {"steps": 50, "warmup_steps": 2}
    assert planner.plan(values, "mine.yaml").found
    (grid,) = values["grids"].values()
    values["methods"][grid["methods"][0]]["training"] = "short"
    with pytest.raises(InputError, match=r"grids\..*: it is found from runs of 64,000 and of"):
        planner.plan(values, "mine.yaml")


@pytest.fixture
def local(config, tmp_path, monkeypatch):
    """A plan whose files are not there."""
    monkeypatch.chdir(tmp_path)
    values = config()
    values["sources"]["code"] = {"kind": "local", "licence": "CC0", "files": ["*.txt", "b.txt"]}
    values["tokenizers"]["installed"] = {"kind": "file", "path": "pieces.model"}
    values["packing"]["hygiene"] = {"decontaminate": {"files": ["items.jsonl"]}}
    values["evaluation"]["standard"]["tasks"] = [
        {"tasks": ["piqa"], "shots": [0], "formulations": ["cf"]}
    ]
    values["tasks"] = {"piqa": {"files": {"validation": "piqa.jsonl"}}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return planner.plan(values, "mine.yaml")


WHERE = {
    "*.txt": "sources.code",
    "b.txt": "sources.code",
    "pieces.model": "tokenizers.installed",
    "items.jsonl": "packing.hygiene.decontaminate",
    "piqa.jsonl": "tasks.piqa",
}


def test_files_that_are_not_there_are_all_told(local, tmp_path):
    told = PlanComparison(local).missing_needed_user_file_problems()
    assert told == [
        f"mine.yaml: {where}: there is no file {path} (in {tmp_path}): put it there, or correct "
        "the path"
        for path, where in WHERE.items()
    ]
    answer = json.loads(cost.cost_report([Path("mine.yaml")], devices=["cpu"], format="json"))
    assert answer["warnings"] == told
    # They come before the tables, which a machine without the files makes, too.
    text = cost.cost_report([Path("mine.yaml")], devices=["cpu"]).splitlines()
    assert text[: len(told) + 1] == [*told, "All below is planned as if they were there."]
    local.sources["code"]["files"] = "/nowhere/a.txt"
    assert PlanComparison(local).missing_needed_user_file_problems()[0] == (
        "mine.yaml: sources.code: there is no file /nowhere/a.txt: put it there, or correct the "
        "path"
    )


ROWS = [{"id": n, "body": f"text {n}"} for n in range(1500)]
FEW = "sources.code: of its {} documents about {} are for validation, where 200 are enough"
WORTH = (
    "those that are scored count as only about {} documents of equal length, and an answer needs "
)
WORTH += "20. "
UNEVEN = [{"text": "a" * (20_000 if n % 30 == 0 else 20)} for n in range(1500)]


@pytest.mark.parametrize(
    ("files", "settings", "told"),
    [
        # Of 1,500 documents 18 % are for validation: a fifth, without those of the search.
        ({"a.jsonl": ROWS}, {"field": "body"}, None),
        ({"a.jsonl": ROWS[:500]}, {"field": "body"}, FEW.format(500, 90) + ". `pike advise` may"),
        # Ten of the 270 have 5,001 tokens each, 97 % of all: the others count next to nothing.
        (
            {"a.jsonl": UNEVEN},
            {},
            "sources.code: "
            + WORTH.format(11)
            + "`pike advise` will probably not be able to say which method is better: cut long "
            "documents: write `documents: 2000 characters` beside its `files`, or give it more "
            "text, or raise packing.validation_share (0.2)",
        ),
        (
            {"a.txt": "\n".join(row["text"] for row in UNEVEN)},
            {"documents": "lines"},
            "better: cut long documents: write `documents: 2000 characters` beside its `files`, or",
        ),
        ({"a.jsonl": ROWS}, {"field": "body", "bytes": 99}, "or raise its `bytes`, or raise pack"),
        ({f"{n}.txt": "a" for n in range(50)}, {}, FEW.format(50, 9) + "; " + WORTH.format(9)),
        ({f"{n}.txt": "a\n" * 50 for n in range(50)}, {"documents": "lines"}, None),
        ({f"{n}.txt": "a" * 9 for n in range(9)}, {"bytes": 20}, "each text file is one document"),
        (
            {"a.jsonl": ROWS, "b.jsonl": ROWS[:30]},
            {"field": "body", "validation_files": ["b.jsonl"]},
            FEW.format(30, 30),
        ),
        ({"a.jsonl": ROWS}, {}, "sources.code: a.jsonl:1: no column 'text'; columns: 'id', 'body'"),
        (
            {"a.jsonl": ROWS, "z.jsonl": [{"text": "a"}]},
            {"field": "body"},
            "sources.code: z.jsonl:1: no column 'body'; columns: 'text': name one in `field`",
        ),
        ({"a.txt": "a"}, {}, "sources.code: a.txt is the only file, and a text file is one docum"),
    ],
)
def test_a_plan_looks_at_the_files_of_the_user(
    config, tmp_path, monkeypatch, files, settings, told
):
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        lines = content if isinstance(content, str) else "\n".join(map(json.dumps, content))
        Path(name).write_text(lines)
    values = config()
    values["packing"]["validation_share"] = 0.2
    source = {"kind": "local", "licence": "CC0", "files": [*files], **settings}
    values["sources"]["code"] = source
    Path("mine.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    try:
        answer = json.loads(cost.cost_report([Path("mine.yaml")], devices=["cpu"], format="json"))
        (found,) = answer["warnings"] or [None]
    except InputError as error:
        found = str(error)
    assert (told is None) == (found is None)
    assert told is None or told in found


def test_documents_for_validation_are_counted_where_their_number_is_rounded_up(tmp_path):
    Path(tmp_path, "a.jsonl").write_text("\n".join(['{"text": "some text"}'] * 60))
    source = LocalSource(files=(f"{tmp_path}/a.jsonl",))
    # 60 times 0.9 times 0.25 is 13.5.
    told = document_preview.few_or_unequal_documents_warning(source, 0.25, 100, 10)
    assert told.startswith("of its 60 documents about 14 are for validation")


def test_what_runs_again_names_all_that_differs_of_the_first(local, monkeypatch):
    places = [f"settings.method.{name}" for name in ("rate", "gamma", "a", "b", "c", "d")]
    differences = [made_from.RecordDifference(what, "1", "2") for what in (*places, "code")]
    monkeypatch.setattr(PlanComparison, "differences", lambda *_: differences)
    monkeypatch.setattr(PlanComparison, "is_different_and_untouched", lambda *_: True)
    compared, run = PlanComparison(local, is_forced=lambda *_: True), next(iter(local.runs))
    assert list(compared.reason_lines_once_per_kind("pretrain", run)) == [
        f"run/{run} is made again: {'; '.join(f'{p} was 1, is 2' for p in places[:4])}; 2 more",
        f"run/{run} is made again: code was 1, is 2",
    ]
    assert list(compared.reason_lines_once_per_kind("pretrain", run)) == []


def test_a_finished_workflow_tells_of_too_little_text_what_to_train_with_and_what_is_next(
    local, tmp_path
):
    assert plan_hints.finished_workflow_hints(local) == []
    for corpus, doubts in {"installed/code": ["too few"], "installed/prose": []}.items():
        folder = tmp_path / f"results/corpora/{corpus}"
        folder.mkdir(parents=True)
        (folder / MANIFEST).write_text(json.dumps({"warnings": doubts}), encoding="utf-8")
    assert plan_hints.finished_workflow_hints(local) == ["too few"]
    (tmp_path / "results/report").mkdir()
    (tmp_path / "results/report/index.html").touch()
    first, verdict, report, *commands = plan_hints.finished_workflow_hints(local)
    assert (first, report) == ("too few", "The report: results/report/index.html")
    # There is none, and its command says so.
    database = local.report_database_files().database
    assert f"pike advise: {database} does not exist" in verdict
    assert all(database in line for line in commands)
    assert [line.split("pike ")[1].split()[0] for line in commands] == ["advise", "claims", "why"]


def test_no_file_is_missed_of_what_is_not_used_or_was_made_under_the_same_settings(local, tmp_path):
    spare = local.config["sources"] | {"spare": {"kind": "local", "files": "spare.txt"}}
    unused = dataclasses.replace(local, sources=spare)
    assert (
        PlanComparison(unused).missing_needed_user_file_problems()
        == PlanComparison(local).missing_needed_user_file_problems()
    )
    manifest, source = tmp_path / f"results/data/code/{MANIFEST}", local.sources["code"]
    facts = dict.fromkeys(("revision", "entropy_nats_per_character"))
    facts |= {"licence": "", "documents": 1, "bytes": 1, "skipped": {}}

    def made(settings):
        taken = made_from.InputSnapshot("download", [])
        taken.write_manifest(manifest, settings=settings, files=[], facts=facts)

    made(source)
    told = PlanComparison(local).missing_needed_user_file_problems()
    assert not any("sources.code" in line for line in told)
    made({**source, "files": "c.txt"})
    told = PlanComparison(local).missing_needed_user_file_problems()
    assert sum("sources.code" in line for line in told) == 2


@pytest.mark.parametrize(
    ("flags", "units"),
    [
        ("fpu avx512f avx512_bf16 avx512_vnni", ["avx512_bf16"]),
        ("amx_bf16 avx512_bf16 amx_tile", ["amx_bf16", "avx512_bf16"]),
        ("fpu xavx512_bf16x", []),
    ],
)
def test_units_of_a_processor_are_read_as_linux_writes_them(tmp_path, flags, units):
    place = tmp_path / "cpuinfo"
    place.write_text(f"processor\t: 0\nbugs\t: none\nflags\t\t: {flags}\n\nflags\t\t: {flags}\n")
    assert accelerators.bfloat16_cpu_flags(place) == units
    assert accelerators.bfloat16_cpu_flags(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("units", "width", "precision", "told"),
    [
        (["avx512_bf16"], 128, None, True),
        (["avx512_bf16"], 128, "bfloat16", False),
        (["avx512_bf16"], 64, None, False),
        ([], 128, None, False),
    ],
)
def test_faster_products_of_this_processor_are_told(
    config, monkeypatch, units, width, precision, told
):
    monkeypatch.setattr(accelerators, "bfloat16_cpu_flags", lambda: units)
    values = config()
    values["models"]["nano"]["width"] = width
    for recipe in values["training"].values() if precision else ():
        recipe["precision"] = precision
    lines = plan_hints.slow_cpu_float32_hints(planner.plan(values, "mine.yaml"))
    assert [("it trains nano faster" in line) for line in lines] == [True] * told


def test_doubts_that_differ_in_names_and_numbers_are_one_line():
    little = "domain 'a{}': little text: {} documents (of 200), the largest {}.5%: give a{} more"
    other = "domain 'a1': U+2581 stands 3 times in the text"
    doubts = [little.format(n, 10 * n, n, n) for n in (1, 2, 13)]
    assert plan_hints.merge_similar_doubts([*doubts, other, doubts[0]]) == [
        f"{doubts[0]}. The same holds, with other numbers, for a2, a13: see manifest.json of "
        "each corpus.",
        other,
    ]
    assert plan_hints.merge_similar_doubts(doubts[:1]) == doubts[:1]
