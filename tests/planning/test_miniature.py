"""The default experiment: the paper's in miniature, whole and in parts."""

import pytest
from repository import ROOT

from pipeline.planning import paper_roles, planner, rule_inputs


@pytest.fixture(scope="module")
def whole():
    return planner.read_expanded_config(ROOT / "config.yaml")


@pytest.fixture(scope="module")
def plan(whole):
    return planner.plan(whole, "config.yaml")


def test_it_has_every_method_of_the_paper(plan):
    methods = {values["method_name"] for values in plan.runs.values()}
    assert methods >= {
        "mix", "round-robin", "random", "famo", "ado", "glam", "doremi", "pike", "pike-glam-init",
        "balanced-pike-tau1", "balanced-pike-tau3", "balanced-pike-tau5", "pcgrad", "adatask",
    }  # fmt: skip


# What figures show, and tables without scores: scenarios, models and methods by their roles, and
# which records of checkpoints.
BATCHES = ("mix", "round-robin", "random")
BALANCED = ("balanced-pike-tau1", "balanced-pike-tau3", "balanced-pike-tau5")
SHOWN = {
    "table7": (("mc4-en-hi-de", "mc4-en-hi", "glam"), (), ("pike",), ()),
    "table8": (("mc4-en-hi-de", "glam"), (), ("pike",), ()),
    "figure2": (("glam",), ("gpt2-large",), BATCHES, ("evaluate", "probe")),
    "figure4": (("mc4-en-hi-de", "glam"), ("gpt2-large",), BATCHES, ("evaluate",)),
    "figure5": (("mc4-en-hi-de-zh-fr-ar",), ("gpt2-large",), ("mix",), ("probe",)),
    "figure6": (("glam",), ("gpt2-large",), ("mix",), ("probe",)),
    "figure7": (("mc4-en-hi",), ("gpt2-small",), ("mix", "pcgrad", "adatask"), ("evaluate",)),
    "figure8": (("mc4-en-hi-de",), ("gpt2-large",), ("mix", "pike", *BALANCED), ()),
    **dict.fromkeys(("table3", "table4", "table5", "table6", "figure3"), ((), (), (), ())),
}
TARGETS = [f"table{n}" for n in range(1, 15)] + [f"figure{n}" for n in range(1, 9)]
JOBS = ("pretrain", "evaluate", "probe")


def planned_jobs(plan, target):
    """Trainings, evaluations and probes that a target plans, with all that they stand on."""
    reads, found = rule_inputs.RuleInputs(plan), set()
    kind = target.rstrip("0123456789")
    todo = [(kind, "" if kind == "article" else target)]
    while todo:
        read = reads.job_inputs(*todo.pop()).made_paths()
        new = {plan.maker_by_manifest_or_tokenizer_path[path] for path in read} - found
        found |= new
        todo += new
    return {job for job in found if job[0] in JOBS}


def shown_jobs(plan, target):
    """The same by what the target shows: the paper's printed numbers, or the lists above."""
    role = {(kind, ours): theirs for kind, ours, theirs in paper_roles.paper_roles_of(plan.config)}
    printed = {
        (row["scenario"], row["model"], row["method"])
        for row in paper_roles.read_paper_table("numbers")
        if row["paper_table"] == ("table14" if target == "figure1" else target)
        or (target == "figure1" and row["paper_table"] == "table13")
    }
    jobs = set()
    if target == "table4":
        # The weights that DoReMi's proxy found.
        return next(stands_on(plan, run) for run in plan.requested if "/doremi/" in run)
    for run in plan.requested:
        ours = zip(("scenario", "model", "method"), run.split("/"), strict=False)
        scenario, model, method = (role.get(pair) for pair in ours)
        kinds = ("evaluate",)
        if target in SHOWN:
            *lists, kinds = SHOWN[target]
            is_shown = (
                all(
                    not some or one in some
                    for one, some in zip((scenario, model, method), lists, strict=True)
                )
                and lists[2]
            )
        elif target == "figure1":
            is_shown = scenario in ("mc4-en-hi", "glam") and model == "gpt2-large"
            is_shown &= (scenario, model, method) in printed
        else:
            # One language alone is a scenario of its own in the paper, and in paper.yaml.
            alone = {(m, name) for _, m, name in printed if name.startswith("single-")}
            is_shown = (scenario, model, method) in printed or (model, method) in alone
        if is_shown:
            asked = {"evaluate": plan.evaluations, "probe": plan.probes}
            jobs |= {(kind, run) for kind in kinds if run in asked[kind]} | {("pretrain", run)}
    return jobs | {job for _, run in jobs for job in stands_on(plan, run)}


def stands_on(plan, run):
    """Trainings and evaluations of the runs that a run's reference, mixture or grid needs."""
    below = [plan.references[run]] if run in plan.references else []
    jobs = {("pretrain", other) for other in below}
    if run in plan.found:
        search = plan.mixtures[plan.found[run]]
        jobs |= {("pretrain", other) for other in search["proxies"]}
        if search["finder"] == "grid":
            jobs |= {("evaluate", other) for other in search["proxies"]}
    return jobs | {job for _, other in jobs if other != run for job in stands_on(plan, other)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["config.yaml", "workflow/configs/decide.yaml", "workflow/configs/paper.yaml"]
)
def test_each_target_of_the_paper_plans_what_it_shows(path):
    plan = planner.plan(planner.read_expanded_config(ROOT / path), path)
    shown = {target: shown_jobs(plan, target) for target in TARGETS}
    assert {target: planned_jobs(plan, target) for target in TARGETS} == shown
    assert planned_jobs(plan, "article") == set().union(*shown.values())


def test_what_make_quick_builds_needs_few_of_the_runs(whole, plan):
    chosen = {
        run
        for section, kind in (("tables", "table"), ("figures", "figure"))
        for name in whole["quick"][section]
        for run in plan.needed_runs_by_output[kind, name]
    }
    assert len(chosen) < len(plan.runs) / 4


def test_tables_and_figures_that_show_the_same_records_share_a_database(plan):
    assert plan.database_path_of_output("table", "table6") == plan.database_path_of_output(
        "table", "table5"
    )
    # Of the same runs one shows the losses, the other the weights alone.
    names = [plan.database_name_by_output["figure", name] for name in ("losses", "weights")]
    losses, weights = (plan.selection_by_partial_database[name] for name in names)
    assert losses.runs == weights.runs
    run = "symbols/nano/pike/seed220"
    held = [plan.settings_of_database(name)["runs"][run] for name in names]
    assert [(one["trained"], one["evaluations"]) for one in held] == [(True, True), (True, False)]
