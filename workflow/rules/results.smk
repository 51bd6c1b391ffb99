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
        "exec {START} {resources.python:q} -m pipeline database {params.file:q}"
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
        "exec {START} {resources.python:q} -m pipeline database {params.file:q}"
        " --out {output:q} > {log:q} 2>&1"


rule table:
    """One table in Markdown, CSV and LaTeX."""
    input:
        lambda wildcards: PLAN.database("table", wildcards.table),
    output:
        md=f"{RESULTS}/tables/{{table}}.md",
        csv=report(
            f"{RESULTS}/tables/{{table}}.csv",
            caption="../caption.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
        tex=f"{RESULTS}/tables/{{table}}.tex",
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
        "exec {START} {resources.python:q} -m pipeline table {params.file:q} --database {input:q}"
        " --out {output.md:q} > {log:q} 2>&1"


rule figure:
    """One figure as SVG and PNG."""
    input:
        lambda wildcards: PLAN.database("figure", wildcards.figure),
    output:
        svg=report(
            f"{RESULTS}/figures/{{figure}}.svg",
            caption="../caption.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        png=f"{RESULTS}/figures/{{figure}}.png",
        json=f"{RESULTS}/figures/{{figure}}.json",
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
        "exec {START} {resources.python:q} -m pipeline figure {params.file:q} --database {input:q}"
        " --out {output.svg:q} > {log:q} 2>&1"


rule report:
    """Pages for reading; the first is index.html."""
    input:
        database=PLAN.shown()[1],
        tables=expand("{results}/tables/{table}.md", results=RESULTS, table=PLAN.tables),
        figures=expand(
            "{results}/figures/{figure}.svg", results=RESULTS, figure=PLAN.figures
        ),
    output:
        index=f"{RESULTS}/report/index.html",
        others=expand(
            "{results}/report/{page}.html",
            results=RESULTS,
            page=["tables", "paper", "methods", "provenance"],
        ),
    log:
        f"{RESULTS}/logs/report.log",
    resources:
        **TAKES.of("report"),
        python=PYTHON,
    params:
        file=PLAN.shown()[0],
        settings=[PLAN.config, PLAN.rule_descriptions()],
        code=stages.code("report"),
        tables=f"{RESULTS}/tables",
        figures=f"{RESULTS}/figures",
    shell:
        "exec {START} {resources.python:q} -m pipeline report {params.file:q} --database {input.database:q}"
        " --tables {params.tables:q} --figures {params.figures:q} --out {output.index:q}"
        " > {log:q} 2>&1"
