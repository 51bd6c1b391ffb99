"""ARC-Easy (Clark et al. 2018): questions of school examinations in science, 3 to 5 options."""

from pipeline.tasks import lettered
from pipeline.tasks.task import Style, Task, data_files

TASK = Task(
    name="arc_easy",
    repository="allenai/ai2_arc",
    revision="210d026faf9955653af8916fad021475a3f00453",
    files=data_files(
        "ARC-Easy/{}-00000-of-00001.parquet",
        validation="ed890ff1e4cef7a7140d3a30dcea3ed2c9d467c6458f447ad9ef0176d8dcbb74",
        test="4160597d618ae851c7eb04e281574f3f654776216ac6b6641588d64527b47177",
        train="b315db8a4be597dc7daa50a4e70d48dd7c990c32085629e6ccd8c926beaa80b5",
    ),
    licence="CC BY-SA 4.0",
    style=Style(label="Question: ", answer=True),
    split="validation",
    further_splits=("test",),
    row=lettered.row,
    curated=(
        "MCAS_2007_8_5189",
        "Mercury_SC_401169",
        "MCAS_2004_8_27",
        "NYSEDREGENTS_2006_8_10",
        "Mercury_7013388",
        "Mercury_7179953",
        "Mercury_7205118",
    ),
)
