"""CommonsenseQA (Talmor et al. 2018): questions about everyday concepts, 5 options."""

import functools

from pipeline.tasks import lettered
from pipeline.tasks.task import Style, Task, data_files

TASK = Task(
    name="csqa",
    repository="tau/commonsense_qa",
    revision="94630fe30dad47192a8546eb75f094926d47e155",
    files=data_files(
        "data/{}-00000-of-00001.parquet",
        validation="bdbd9bf9cc4d2349b24901038b2ab2f58e10e4e507ad2fd425dca55cd3cb6660",
        train="b0449767ed986bfc2ca52b1244a46ef12f732756727f3cb0a4ab69ac8b3d282b",
    ),
    licence="MIT",
    style=Style(label="Question: ", answer=True),
    split="validation",
    # Questions about one concept share its options.
    row=functools.partial(lettered.row, cluster="question_concept"),
    curated=(
        "61fe6e879ff18686d7552425a36344c8",
        "02e821a3e53cb320790950aab4489e85",
        "23505889b94e880c3e89cff4ba119860",
        "a76403b4921a9281b6ee2a7241a5ec9f",
        "6dc921840aa1e5dda3333b79007f630b",
        "e8a8b3a2061aa0e6d7c6b522e9612824",
        "527e72eb38950b8031ee6217ef531960",
    ),
)
