"""From the records of runs to numbers that people read: database, tables, figures, report.

    experiment   the settings of one experiment's results
    records      Parquet files of the runs      -> base tables
    lineage      manifests                      -> what was made from what, by which code
    database     records + lineage + sql/*.sql  -> one DuckDB file
    tables       a view of cells                -> .md, .csv, .tex
    figures      views of curves                -> panels
    drawing      panels                         -> .svg, .png, .json
    report       database + tables + figures    -> one self-contained page
    query, why   questions put to the database

Nothing here imports torch, and nothing but `database` reads the folders of runs.
"""
