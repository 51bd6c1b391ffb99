"""The experiment as a workflow, in the data's order."""

# `--configfile X` replaces the default experiment; Snakemake would merge the two.
if not workflow.overwrite_configfiles:

    configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/pretrain.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/probe.smk"
include: "workflow/rules/theory.smk"
include: "workflow/rules/results.smk"


QUICK = PLAN.config.get("quick", {})


localrules:
    all,
    quick,


rule all:
    """Everything: tables, figures, the database and the report."""
    default_target: True
    input:
        expand(rules.table.output, table=PLAN.tables),
        expand(rules.figure.output, figure=PLAN.figures),
        f"{RESULTS}/pike.duckdb",
        f"{RESULTS}/report/index.html",


rule quick:
    """The tables and figures that the configuration names under `quick`."""
    input:
        expand(rules.table.output, table=QUICK.get("tables", [])),
        expand(rules.figure.output, figure=QUICK.get("figures", [])),
