"""HellaSwag in translation (Okapi, Dac Lai et al. 2023), one task per language."""

from collections.abc import Mapping

from pipeline.tasks import hellaswag
from pipeline.tasks.task import DataFile, DataSet, Record, Row, Task

NOTICE = (
    "CC BY-NC 4.0: NON-COMMERCIAL use only. Machine translations by the Okapi project; give credit "
    "to its authors, and do not use them, or what is derived from them, commercially."
)


def task(language: str) -> Task:
    """HellaSwag in a language, named by its two-letter code as in the data set.

    There is no training split, so that demonstrations come from rows behind the asked ones.
    """

    def row(record: Record, place: str) -> Row:
        """A record; where an ending is {"zh": ..., "en": ...}, the language's text is taken."""
        endings = record.get("endings")
        if isinstance(endings, list):
            told = [e.get(language) if isinstance(e, Mapping) else e for e in endings]
            record = {**record, "endings": told}
        return hellaswag.row(record, place)

    return Task(
        name=f"hellaswag_{language}",
        about=f"HellaSwag, machine-translated ({language})",
        dataset=DataSet(
            # jon-tow/okapi_hellaswag is a loading script, which `datasets` no longer runs.
            repository="alexandrainst/m_hellaswag",
            revision="9d31dc982bd6285e081e3e3136332a38b9c1d7b7",
            files={"val": DataFile(f"data/{language}/val.jsonl", None)},
            licence="CC BY-NC 4.0",
            notice=NOTICE,
        ),
        style=hellaswag.STYLE,
        split="val",
        row=row,
        items=3000,
        language=language,
    )
