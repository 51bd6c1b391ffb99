"""The experiment as a workflow, in the data's order."""


# Without `--configfile`, config.yaml is the experiment. Snakemake's `configfile:` would merge the two.
include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/pretrain.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/results.smk"


QUICK = PLAN.config.get("quick", {})
# As the rules `table` and `figure` make them. Their own outputs do not expand on executors that
# carry files through a storage.
TABLE = [f"{RESULTS}/tables/{{table}}.{suffix}" for suffix in ("md", "csv", "tex")]
FIGURE = [f"{RESULTS}/figures/{{figure}}.{suffix}" for suffix in ("svg", "png", "json")]


localrules:
    all,
    quick,


rule all:
    """Everything: tables, figures, the database and the report."""
    default_target: True
    input:
        expand(TABLE, table=PLAN.tables),
        expand(FIGURE, figure=PLAN.figures),
        f"{RESULTS}/pike.duckdb",
        f"{RESULTS}/report/index.html",


rule quick:
    """The tables and figures that the configuration names under `quick`."""
    input:
        expand(TABLE, table=QUICK.get("tables", [])),
        expand(FIGURE, figure=QUICK.get("figures", [])),
