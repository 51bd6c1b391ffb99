"""From the records of runs to numbers that people read: database, tables, figures, report.

    experiment   the settings of one experiment's results
    record_loader Parquet files of the runs     -> base tables
    lineage      manifests                      -> what was made from what, by which code
    views        sql/*.sql                      -> views, each after those that it reads
    outcomes     scores of items                -> points, under every normalisation
    accuracy_tests all methods, all tasks       -> the table accuracy_tests
    loss_tests   losses by document             -> the table loss_tests
    speedups     curves of two methods          -> the table speedups
    claim_tests  what the paper claims          -> pairs, claim_tests
    board_tests  differences by scenario        -> the table boards; outcomes of predictions
    database     records + lineage + views      -> one DuckDB file
    selection    a view + what is selected      -> rows; data frames
    display      marks, cells and panels: what is shown, before it is drawn
    tables       rows of cells                  -> .md, .csv, .tex
    sealed       what a stage of results made   -> its manifest; what was changed is refused
    curves       rows of curves                 -> panels of lines
    drawing      panels                         -> .svg, .png
    figures      a kind of figure, by its name  -> .svg, .png, .json
    provenance   database + docs/decisions.md   -> what a page says beside numbers
    report_parts .csv, .svg, .json              -> parts of a page
    article      tables + figures of the paper  -> one page in its order, for print
    report       database + tables + figures    -> pages, index.html first
    picture      database                       -> the main picture; docs/results.md
    query, why   questions put to the database

Nothing here imports torch, and only `record_loader` and `lineage` read the folders of runs.
"""
