"""The paper's theory, checked with numbers; records to a database, tables, figures and a report:
`pike theory`, `database`, `table`, `figure`, `article`, `report`."""

from pipeline.planning import manifest_places
from pipeline.results import sql_views


rule theory:
    """Example 1 and the bounds; what is wrong in the paper's derivations."""
    input:
        unpack(reads("theory")),
    output:
        f"{RESULTS}/theory/{FINAL}",
    log:
        f"{RESULTS}/logs/theory.log",
    resources:
        **TAKES.resources("theory"),
    params:
        folder=subpath(output[0], parent=True),
    shell:
        "spawn {resources.python:q} -m pipeline theory --out {params.folder:q} > {log:q} 2>&1"


rule database:
    """Every record of the experiment in one file."""
    input:
        unpack(reads("database")),
    output:
        # The old one stays until the new one is there.
        duckdb=grown(f"{RESULTS}/pike.duckdb"),
        made_from=grown(f"{RESULTS}/pike.{FINAL}"),
    log:
        f"{RESULTS}/logs/database.log",
    resources:
        **TAKES.resources("database"),
    params:
        file=f"{RESULTS}/settings/experiment.json",
    shell:
        "spawn {resources.python:q} -m pipeline database {params.file:q}"
        " --out {output.duckdb:q} > {log:q} 2>&1"


rule database_of_selection:
    """The records of the runs that some tables or figures need, where they do not need all."""
    input:
        unpack(reads("database_of_selection")),
    output:
        duckdb=grown(f"{RESULTS}/databases/{{selection}}.duckdb"),
        made_from=grown(f"{RESULTS}/databases/{{selection}}.{FINAL}"),
    log:
        f"{RESULTS}/logs/databases/{{selection}}.log",
    resources:
        **TAKES.resources("database_of_selection"),
    params:
        file=f"{RESULTS}/settings/databases/{{selection}}.json",
    shell:
        "spawn {resources.python:q} -m pipeline database {params.file:q}"
        " --out {output.duckdb:q} > {log:q} 2>&1"


rule table:
    """One table in Markdown, CSV and LaTeX."""
    input:
        unpack(reads("table")),
        # Its manifest says whether it is another.
        file=lambda wildcards: ancient(
            PLAN.database_path_of_output("table", wildcards.table)
        ),
    output:
        md=f"{RESULTS}/tables/{{table}}.md",
        csv=report(
            f"{RESULTS}/tables/{{table}}.csv",
            caption="../caption.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
        tex=f"{RESULTS}/tables/{{table}}.tex",
        made_from=f"{RESULTS}/tables/{{table}}.{FINAL}",
    log:
        f"{RESULTS}/logs/tables/{{table}}.log",
    resources:
        **TAKES.resources("table"),
    params:
        file=f"{RESULTS}/settings/tables/{{table}}.json",
        # What it compares, for `snakemake --report`.
        about=lambda wildcards: sql_views.caption(
            sql_views.view_of(f"table_{wildcards.table}")
        ),
    shell:
        "spawn {resources.python:q} -m pipeline table {params.file:q} --database {input.file:q}"
        " --out {output.md:q} > {log:q} 2>&1"


rule figure:
    """One figure as SVG and PNG."""
    input:
        unpack(reads("figure")),
        # Its manifest says whether it is another.
        file=lambda wildcards: ancient(
            PLAN.database_path_of_output("figure", wildcards.figure)
        ),
    output:
        svg=report(
            f"{RESULTS}/figures/{{figure}}.svg",
            caption="../caption.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        png=f"{RESULTS}/figures/{{figure}}.png",
        json=f"{RESULTS}/figures/{{figure}}.json",
        made_from=f"{RESULTS}/figures/{{figure}}.{FINAL}",
    log:
        f"{RESULTS}/logs/figures/{{figure}}.log",
    resources:
        **TAKES.resources("figure"),
    params:
        file=f"{RESULTS}/settings/figures/{{figure}}.json",
        # What it compares, for `snakemake --report`.
        about=lambda wildcards: sql_views.caption(
            sql_views.view_of(f"figure_{wildcards.figure}")
        ),
    shell:
        "spawn {resources.python:q} -m pipeline figure {params.file:q} --database {input.file:q}"
        " --out {output.svg:q} > {log:q} 2>&1"


rule article:
    """The paper's tables and figures with our numbers, in the paper's order; `make article` prints it."""
    input:
        unpack(reads("article")),
    output:
        index=f"{RESULTS}/article/index.html",
        made_from=f"{RESULTS}/article/index.{FINAL}",
    log:
        f"{RESULTS}/logs/article.log",
    resources:
        **TAKES.resources("article"),
    params:
        shown=PLAN.paper_table_and_figure_names,
        tables=f"{RESULTS}/tables",
        figures=f"{RESULTS}/figures",
    shell:
        "spawn {resources.python:q} -m pipeline article {params.shown:q}"
        " --tables {params.tables:q} --figures {params.figures:q} --out {output.index:q}"
        " > {log:q} 2>&1"


rule report:
    """Pages for reading; the first is index.html."""
    input:
        unpack(reads("report")),
    output:
        index=f"{RESULTS}/report/index.html",
        others=expand(
            "{results}/report/{page}.html",
            results=RESULTS,
            page=[name for name in manifest_places.PAGES if name != "index"],
        ),
        made_from=f"{RESULTS}/report/index.{FINAL}",
    log:
        f"{RESULTS}/logs/report.log",
    resources:
        **TAKES.resources("report"),
    params:
        file=PLAN.report_database_files().settings,
        database=PLAN.report_database_files().database,
        tables=f"{RESULTS}/tables",
        figures=f"{RESULTS}/figures",
    shell:
        "spawn {resources.python:q} -m pipeline report {params.file:q} --database {params.database:q}"
        " --tables {params.tables:q} --figures {params.figures:q} --out {output.index:q}"
        " > {log:q} 2>&1"
