"""The downstream tasks by name."""

import re

from pike_mixing.errors import InputError
from pike_mixing.settings import unknown
from pipeline.tasks import arc_easy, csqa, hellaswag, piqa
from pipeline.tasks.task import Task

_ENGLISH = (arc_easy.TASK, csqa.TASK, hellaswag.TASK, piqa.TASK)
_TRANSLATED = [hellaswag.translated(language) for language in ("en", "hi", "de")]
TASKS = {task.name: task for task in (*_ENGLISH, *_TRANSLATED)}
"""The paper's tasks; `find` knows HellaSwag in further languages too."""


def find(name: str) -> Task:
    """A task by its name: one of `TASKS`, or `hellaswag_xx` for the language xx.

    Raises:
        InputError: there is no such task.
    """
    language = re.fullmatch("hellaswag_([a-z]{2})", name)
    if name not in TASKS and language:
        return hellaswag.translated(language[1])
    if name not in TASKS:
        raise InputError(unknown(name, TASKS, "tasks"))
    return TASKS[name]
