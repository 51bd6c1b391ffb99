"""From the records of runs to numbers that people read: database, tables, figures, report.

    experiment            the settings of one experiment's results
    record_loader         Parquet files of the runs     -> base tables
    lineage               manifests                     -> what was made from what, by which code
    sql_views             sql/*.sql                     -> views, each after those that it reads
    measured_results      losses and scores of items    -> curves by checkpoint, which tests compare
    accuracy_tests        all methods, all tasks        -> the table accuracy_tests
    loss_tests            losses by document            -> the table loss_tests
    speedups              curves of two methods         -> the table speedups
    claim_tests           what the paper claims         -> pairs, claim_tests
    board_tests           differences by scenario       -> the table boards; outcomes of predictions
    database              records + lineage + views     -> one DuckDB file
    archive               a finished experiment         -> its records and settings; results again
    database_reader       a database, a selection       -> rows of a view; data frames
    number_marks          alarms, tests                 -> marks of numbers, cells of tables
    tables                rows of cells                 -> .md, .csv, .tex
    figure_panels         rows of curves                -> panels of lines
    drawing               panels                        -> .svg, .png
    figures               a kind of figure, by its name -> .svg, .png, .json
    result_manifests      what a stage here made        -> its manifest; what was changed is refused
    labels                names in settings             -> names as people read them
    advice                tests of losses               -> what to train with: `pike advise`
    report_facts          database + docs/decisions.md  -> what a page says beside numbers
    report_parts          .csv, .svg, docs/finders.md   -> parts of a page
    headline              advice                        -> the first picture; docs/results.md
    report                database + tables + figures   -> pages, index.html first
    article               tables + figures of the paper -> one page in its order, for print
    registration_outcomes a registered benchmark        -> predictions beside what came of them
    stale_work            a database                    -> what behind it is out of date
    query, why            questions put to the database

Nothing here imports torch, and only `record_loader` and `lineage` read the folders of runs.
"""
