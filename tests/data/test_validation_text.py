"""A corpus tells of validation text from which little can be said."""

import random

import pytest

from pipeline.data.splits import is_validation, text_hash
from pipeline.runtime import atomic_files


def texts(length, split):
    """Texts of letters that go to a split, by their hashes."""
    draw = random.Random(length)
    drawn = ("".join(draw.choices("abcdefgh", k=length)) for _ in range(200))
    return [text for text in drawn if is_validation(text_hash(text), 0.3) == (split != "train")]


SHORT, LONG = texts(9, "validation"), texts(99, "train")


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        # Texts have 9 and 99 letters, and each an end: 200 of 2,200 tokens; 190 of 390; 200 of 400.
        (SHORT[:20] + LONG[:20], "20 documents, 200 of 2,200 tokens (9.1%)"),
        (SHORT[:19] + LONG[:2], "19 documents, 190 of 390 tokens (48.7%)"),
        (SHORT[:20] + LONG[:2], None),
    ],
)
def test_little_text_for_validation_is_told(packed, caplog, documents, told):
    manifest = atomic_files.read_json(packed(documents) / atomic_files.MANIFEST)
    assert [r.message for r in caplog.records if "validation" in r.message] == manifest["warnings"]
    way = "so that losses are uncertain: give the source more documents, or set a larger packing"
    way += ".validation_share (0.3)"
    lead = "domain 'domain': little text is for validation"
    assert manifest["warnings"] == ([f"{lead}: {told}, {way}"] if told else [])
