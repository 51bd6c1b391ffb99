"""Downstream tasks: what is asked, before any model is there.

task             `Task`, `Row`, and row -> prompt in three formulations
task_definitions each data set: record -> row, and `find_task` for other languages
fetch            data sets by pinned id and revision -> files with checksums: `pike fetch`
prepared_task    a fetched task made ready to be asked, with its demonstrations
evaluation_settings   what is asked of a run's checkpoints, tasks among it
"""

TASK_PATTERNS = ("arc_easy", "csqa", "hellaswag", "hellaswag_[a-z]{2}", "piqa")
"""Names of tasks as patterns."""
