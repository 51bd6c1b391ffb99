"""HellaSwag (Zellers et al. 2019): how a caption of a video or a guide's passage goes on."""

import re
from collections.abc import Mapping

from pike_mixing.errors import InputError
from pipeline.tasks.fields import Fields
from pipeline.tasks.task import DataFile, Record, Row, Style, Task, data_files

STYLE = Style(label="", answer=False, instruction="Choose the best continuation:")

NOTICE = (
    "CC BY-NC 4.0: NON-COMMERCIAL use only. Machine translations by the Okapi project; give credit "
    "to its authors, and do not use them, or what is derived from them, commercially."
)

ENDINGS = 4


def cleaned(text: str) -> str:
    """The text without the marks of WikiHow's layout, as OLMES removes them.

    " [title]" ends a sentence, whether or not a full stop stands before it; "[header]", "[step]"
    and all else in brackets goes. OLMES leaves blanks where a mark stood at either end; here they
    go, since a prompt must be cut at one space.
    """
    text = re.sub(r"\.? \[title\]", ". ", text.strip())
    return re.sub(r"\[.*?\]", "", text).replace("  ", " ").strip()


def row(record: Record, place: str) -> Row:
    """A text and four endings. `ind` is not unique, so a row is named by its place.

    `capitalize` also makes the rest of `ctx_b` lower case, German nouns included: the harnesses do
    it, and numbers are compared with theirs.
    """
    fields = Fields(record, place)
    first = fields.text("ctx_a")
    second = fields.maybe_text("ctx_b").capitalize()
    activity = fields.text("activity_label")
    endings = tuple(map(cleaned, fields.texts("endings")))
    if len(endings) != ENDINGS or not all(endings):
        raise InputError(f"{place}: 'endings' are {len(endings)}, or blank: {ENDINGS} are needed")
    source = fields.text("source_id")
    return Row(
        id=place,
        key=f"{source}|{fields.number('ind')}",
        query=cleaned(f"{activity}: {first} {second}"),
        options=endings,
        gold=fields.index("label", len(endings)),
        cluster=source,
        origin=source.partition("~")[0],
    )


TASK = Task(
    name="hellaswag",
    repository="Rowan/hellaswag",
    revision="218ec52e09a7e7462a5400043bb9a69a41d06b76",
    files=data_files(
        "data/{}-00000-of-00001.parquet",
        validation="899813071e1e95efafec90f856e1987d2150fa4d020fc005df6962c259f660cd",
        train="cacb12587faa63d7f723a72d61d12bfa94b140446f5a6a0a2e1c6906ab88bf02",
    ),
    licence="MIT (its authors' repository; the data set's card on the Hub names none)",
    style=STYLE,
    split="validation",
    row=row,
    items=3000,
    curated=(
        "wikihow~19|12",
        "wikihow~66|39",
        "activitynet~v_-2dxp-mv2zo|9",
        "activitynet~v_-Xl95IW5H_s|47",
        "wikihow~62|38",
        "activitynet~v_-QuFk_ThRNg|38",
        "activitynet~v_-YjGbsbDoxs|51",
    ),
)


def translated(language: str) -> Task:
    """HellaSwag in translation (Okapi, Dac Lai et al. 2023), named by the language's two letters.

    There is no training split, so that demonstrations come from rows behind the asked ones.
    """

    def translation(record: Record, place: str) -> Row:
        """A record; where an ending is {"zh": ..., "en": ...}, the language's text is taken."""
        endings = Fields(record, place).value("endings")
        if isinstance(endings, list):
            texts = [e.get(language) if isinstance(e, Mapping) else e for e in endings]
            record = {**record, "endings": texts}
        return row(record, place)

    return Task(
        name=f"hellaswag_{language}",
        # jon-tow/okapi_hellaswag is a loading script, which `datasets` no longer runs.
        repository="alexandrainst/m_hellaswag",
        revision="9d31dc982bd6285e081e3e3136332a38b9c1d7b7",
        files={"val": DataFile(f"data/{language}/val.jsonl", None)},
        licence="CC BY-NC 4.0",
        notice=NOTICE,
        style=STYLE,
        split="val",
        row=translation,
        items=3000,
        language=language,
    )
