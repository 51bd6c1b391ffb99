"""Downstream tasks: what is asked, before any model is there.

One module per task, its data set and how a record becomes a row:

    arc_easy, csqa, hellaswag (also translated), piqa

and what they share:

    task             `Task`, `Row` and what else a task is made of
    registry         `TASKS`, and `find` for the languages that the table does not list
    fields           values of a data set's record, checked
    lettered         rows whose choices carry labels of their own (ARC, CommonsenseQA)
    fetch            data sets by pinned id and revision -> files with checksums: `pike fetch`
    formats          row -> prompt, in three formulations
    demonstrations   which solved questions stand in front
    benchmark        settings, and a fetched task made ready to be asked

`evaluation_settings` says what is asked of a run's checkpoints, tasks among it.
"""

TASKS = ("arc_easy", "csqa", "hellaswag", "hellaswag_[a-z]{2}", "piqa")
"""Names of tasks as patterns."""
