"""Records to a database, tables, figures and a report: `pike database`, `table`, `figure`,
`report`."""


rule database:
    """Every record of the experiment in one file."""
    input:
        READS.records(PLAN.runs),
    output:
        f"{RESULTS}/pike.duckdb",
    log:
        f"{RESULTS}/logs/database.log",
    resources:
        **TAKES.of("database"),
        python=PYTHON,
    params:
        file=f"{RESULTS}/settings/experiment.json",
        settings=PLAN.config,
        code=stages.code("database"),
    shell:
        "exec {resources.python:q} -m pipeline database {params.file:q}"
        " --out {output:q} > {log:q} 2>&1"


rule database_of_selection:
    """The records of the runs that some tables or figures need, where they do not need all."""
    input:
        READS.selection_records,
    output:
        f"{RESULTS}/databases/{{selection}}.duckdb",
    log:
        f"{RESULTS}/logs/databases/{{selection}}.log",
    resources:
        **TAKES.of("database_of_selection"),
        python=PYTHON,
    params:
        file=f"{RESULTS}/settings/databases/{{selection}}.json",
        settings=READS.selection_settings,
        code=stages.code("database"),
    shell:
        "exec {resources.python:q} -m pipeline database {params.file:q}"
        " --out {output:q} > {log:q} 2>&1"


rule table:
    """One table in Markdown, CSV and LaTeX."""
    input:
        lambda wildcards: PLAN.database("table", wildcards.table),
    output:
        multiext(f"{RESULTS}/tables/{{table}}", md=".md", csv=".csv", tex=".tex"),
    log:
        f"{RESULTS}/logs/tables/{{table}}.log",
    resources:
        **TAKES.of("table"),
        python=PYTHON,
    params:
        file=f"{RESULTS}/settings/tables/{{table}}.json",
        settings=lambda wildcards: PLAN.tables[wildcards.table],
        code=stages.code("table"),
    shell:
        "exec {resources.python:q} -m pipeline table {params.file:q} --database {input:q}"
        " --out {output.md:q} > {log:q} 2>&1"


rule figure:
    """One figure as SVG and PNG."""
    input:
        lambda wildcards: PLAN.database("figure", wildcards.figure),
    output:
        multiext(f"{RESULTS}/figures/{{figure}}", svg=".svg", png=".png", json=".json"),
    log:
        f"{RESULTS}/logs/figures/{{figure}}.log",
    resources:
        **TAKES.of("figure"),
        python=PYTHON,
    params:
        file=f"{RESULTS}/settings/figures/{{figure}}.json",
        settings=lambda wildcards: PLAN.figures[wildcards.figure],
        code=stages.code("figure"),
    shell:
        "exec {resources.python:q} -m pipeline figure {params.file:q} --database {input:q}"
        " --out {output.svg:q} > {log:q} 2>&1"


rule report:
    """One page with everything, for reading."""
    input:
        database=PLAN.shown()[1],
        tables=expand("{results}/tables/{table}.md", results=RESULTS, table=PLAN.tables),
        figures=expand(
            "{results}/figures/{figure}.svg", results=RESULTS, figure=PLAN.figures
        ),
    output:
        f"{RESULTS}/report/index.html",
    log:
        f"{RESULTS}/logs/report.log",
    resources:
        **TAKES.of("report"),
        python=PYTHON,
    params:
        file=PLAN.shown()[0],
        settings=[PLAN.config, planner.rule_descriptions(PLAN)],
        code=stages.code("report"),
        tables=f"{RESULTS}/tables",
        figures=f"{RESULTS}/figures",
    shell:
        "exec {resources.python:q} -m pipeline report {params.file:q} --database {input.database:q}"
        " --tables {params.tables:q} --figures {params.figures:q} --out {output:q}"
        " > {log:q} 2>&1"
