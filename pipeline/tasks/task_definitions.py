"""The downstream tasks: how a record of each data set becomes a row, and all tasks by name."""

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pike_mixing.errors import InputError
from pike_mixing.setting_messages import unknown_name_message
from pipeline.tasks.task import DataFile, Record, Row, Style, Task, data_files

_ADVICE = "this is not the task's data set, fetch it with `pike fetch`"


@dataclass(frozen=True)
class Fields:
    """The fields of a record; each reader raises an InputError where a field is not of its kind."""

    record: Mapping[str, Any]
    """A row of a data set, as it is stored there."""
    place: str
    """Split and number of the row, for messages: "validation:17"."""

    def value(self, name: str) -> Any:
        """A field that must be there."""
        fields = self.record if isinstance(self.record, Mapping) else {}
        if name not in fields:
            known = ", ".join(map(repr, fields))
            raise InputError(f"{self.place}: no field {name!r} (fields: {known}): {_ADVICE}")
        return fields[name]

    def text(self, name: str) -> str:
        """A text with something in it, without surrounding blanks."""
        result = self.possibly_blank_text(name)
        if not result:
            raise InputError(f"{self.place}: {name!r} is blank: {_ADVICE}")
        return result

    def possibly_blank_text(self, name: str) -> str:
        """A text that may be blank, without surrounding blanks."""
        result = self.value(name)
        if not isinstance(result, str):
            raise self._wrong_kind_error(name, result, "a text")
        return result.strip()

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of at least two texts, none of them blank."""
        result = self.value(name)
        if not isinstance(result, list) or len(result) < 2:
            raise self._wrong_kind_error(name, result, "a list of options")
        named = {f"{name}[{n}]": text for n, text in enumerate(result)}
        return tuple(map(Fields(named, self.place).text, named))

    def index(self, name: str, options: int) -> int:
        """An index of the right option, a number or the text of one (HellaSwag stores texts)."""
        result = self.value(name)
        if result in ("", -1, "-1"):
            raise self.hidden_label_error(name)
        whole = str(result).strip().isdecimal() and not isinstance(result, bool)
        number = int(result) if whole else -1
        if not 0 <= number < options:
            raise InputError(
                f"{self.place}: {name!r} is {result!r}, but there are options 0 to {options - 1}: "
                f"{_ADVICE}"
            )
        return number

    def stored_integer(self, name: str) -> int:
        """A whole number, which is stored as one."""
        result = self.value(name)
        if not isinstance(result, int) or isinstance(result, bool):
            raise self._wrong_kind_error(name, result, "a whole number")
        return result

    def hidden_label_error(self, name: str) -> InputError:
        """What is said of a split whose right answers are kept back."""
        return InputError(
            f"{self.place}: {name!r} is hidden: this split has no labels, take another"
        )

    def _wrong_kind_error(self, name: str, value: object, kind: str) -> InputError:
        return InputError(f"{self.place}: {name!r} is {value!r:.80}, not {kind}: {_ADVICE}")


def lettered_options_row(record: Record, place: str, cluster: str = "id") -> Row:
    """A question of ARC or CommonsenseQA; `cluster` is the field that names the row's cluster.

    ARC labels options A to E in some questions and 1 to 5 in others: a key is no index.
    """
    fields = Fields(record, place)
    choices = fields.value("choices")
    if not isinstance(choices, Mapping):
        raise InputError(f"{place}: 'choices' is {choices!r:.80}, not labels and texts")
    listed = Fields(choices, place)
    texts = listed.texts("text")
    labels = listed.texts("label")
    if len(labels) != len(texts) or len(set(labels)) != len(labels):
        raise InputError(f"{place}: labels {', '.join(labels)} do not name {len(texts)} options")
    key = fields.possibly_blank_text("answerKey")
    if not key:
        raise fields.hidden_label_error("answerKey")
    if key not in labels:
        raise InputError(f"{place}: answer {key!r} is none of the labels {', '.join(labels)}")
    name = fields.text("id")
    return Row(
        id=name,
        key=name,
        query=fields.text("question"),
        options=texts,
        gold=labels.index(key),
        cluster=fields.text(cluster),
    )


ARC_EASY = Task(
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
    row=lettered_options_row,
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


CSQA = Task(
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
    row=functools.partial(lettered_options_row, cluster="question_concept"),
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


def piqa_row(record: Record, place: str) -> Row:
    """A goal with two ways; the data set has no ids, so a row is named by its place.

    One goal occurs in several rows with other ways: the goal is the cluster.
    """
    fields = Fields(record, place)
    goal = fields.text("goal")
    ways = tuple(fields.text(name) for name in ("sol1", "sol2"))
    return Row(
        id=place,
        key=goal,
        query=goal,
        options=ways,
        gold=fields.index("label", len(ways)),
        cluster=hashlib.sha256(goal.encode()).hexdigest()[:16],
    )


PIQA = Task(
    name="piqa",
    # ybisk/piqa is a loading script, which `datasets` no longer runs.
    repository="baber/piqa",
    revision="142f6d7367fd9877f0fb3b5734ea6a545f54cdd1",
    files=data_files(
        "piqa_{}.parquet",
        validation="2b17ee1215b1ceb2ddabf4c90a05c5a8b833bef9d207960f57d111c43a2080f3",
        train="3114602b31fa724309a6c493cc86368c4eab7ab6e79e285056fd5ce3b60ddf02",
    ),
    licence="AFL-3.0 (its authors' repository; the data set's card on the Hub says unknown)",
    style=Style(label="Goal: ", answer=True),
    split="validation",
    row=piqa_row,
    curated=(
        "how do you stab something?",
        "how do you shake something?",
        "Clean tires",
        "how do you taste something?",
        "To create a makeshift ice pack,",
        "What should I use as a stain on a wooden bowl I've just made.",
        "How to boil eggs.",
    ),
)


HELLASWAG_STYLE = Style(label="", answer=False, instruction="Choose the best continuation:")

TRANSLATION_NOTICE = (
    "CC BY-NC 4.0: NON-COMMERCIAL use only. Machine translations by the Okapi project; give credit "
    "to its authors, and do not use them, or what is derived from them, commercially."
)

ENDINGS = 4


def clean_hellaswag(text: str) -> str:
    """The text without the marks of WikiHow's layout, as OLMES removes them.

    " [title]" ends a sentence, whether or not a full stop stands before it; "[header]", "[step]"
    and all else in brackets goes. OLMES leaves blanks where a mark stood at either end; here they
    go, since a prompt must be cut at one space.
    """
    text = re.sub(r"\.? \[title\]", ". ", text.strip())
    return re.sub(r"\[.*?\]", "", text).replace("  ", " ").strip()


def hellaswag_row(record: Record, place: str) -> Row:
    """A text and four endings. `ind` is not unique, so a row is named by its place.

    `capitalize` also makes the rest of `ctx_b` lower case, German nouns included: the harnesses do
    it, and numbers are compared with theirs.
    """
    fields = Fields(record, place)
    first = fields.text("ctx_a")
    second = fields.possibly_blank_text("ctx_b").capitalize()
    activity = fields.text("activity_label")
    endings = tuple(map(clean_hellaswag, fields.texts("endings")))
    if len(endings) != ENDINGS or not all(endings):
        raise InputError(f"{place}: 'endings' are {len(endings)}, or blank: {ENDINGS} are needed")
    source = fields.text("source_id")
    return Row(
        id=place,
        key=f"{source}|{fields.stored_integer('ind')}",
        query=clean_hellaswag(f"{activity}: {first} {second}"),
        options=endings,
        gold=fields.index("label", len(endings)),
        cluster=source,
        origin=source.partition("~")[0],
    )


HELLASWAG = Task(
    name="hellaswag",
    repository="Rowan/hellaswag",
    revision="218ec52e09a7e7462a5400043bb9a69a41d06b76",
    files=data_files(
        "data/{}-00000-of-00001.parquet",
        validation="899813071e1e95efafec90f856e1987d2150fa4d020fc005df6962c259f660cd",
        train="cacb12587faa63d7f723a72d61d12bfa94b140446f5a6a0a2e1c6906ab88bf02",
    ),
    licence="MIT (its authors' repository; the data set's card on the Hub names none)",
    style=HELLASWAG_STYLE,
    split="validation",
    row=hellaswag_row,
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


def translated_hellaswag_task(language: str) -> Task:
    """HellaSwag in translation (Okapi, Dac Lai et al. 2023), named by the language's two letters.

    There is no training split, so that demonstrations come from rows behind the asked ones.
    """

    def translated_row(record: Record, place: str) -> Row:
        """A record; where an ending is {"zh": ..., "en": ...}, the language's text is taken."""
        endings = Fields(record, place).value("endings")
        if isinstance(endings, list):
            texts = [e.get(language) if isinstance(e, Mapping) else e for e in endings]
            record = {**record, "endings": texts}
        return hellaswag_row(record, place)

    return Task(
        name=f"hellaswag_{language}",
        # jon-tow/okapi_hellaswag is a loading script, which `datasets` no longer runs.
        repository="alexandrainst/m_hellaswag",
        revision="9d31dc982bd6285e081e3e3136332a38b9c1d7b7",
        files={"val": DataFile(f"data/{language}/val.jsonl", None)},
        licence="CC BY-NC 4.0",
        notice=TRANSLATION_NOTICE,
        style=HELLASWAG_STYLE,
        split="val",
        row=translated_row,
        items=3000,
        language=language,
    )


_ENGLISH = (ARC_EASY, CSQA, HELLASWAG, PIQA)
_TRANSLATED = [translated_hellaswag_task(language) for language in ("en", "hi", "de")]
TASKS = {task.name: task for task in (*_ENGLISH, *_TRANSLATED)}
"""The paper's tasks; `find_task` knows HellaSwag in further languages too. A new one is also named
in `TASK_PATTERNS` of the package."""


def find_task(name: str) -> Task:
    """A task by its name: one of `TASKS`, or `hellaswag_xx` for the language xx.

    Raises:
        InputError: there is no such task.
    """
    language = re.fullmatch("hellaswag_([a-z]{2})", name)
    if name not in TASKS and language:
        return translated_hellaswag_task(language[1])
    if name not in TASKS:
        raise InputError(unknown_name_message(name, TASKS, "tasks"))
    return TASKS[name]
