"""A corpus tells of validation text from which little can be said."""

import random

import pytest
from test_packing import split_of

from pipeline.runtime import atomic_files


def texts(length, split):
    """Texts of letters that go to a split, by their hashes."""
    draw = random.Random(length)
    drawn = ("".join(draw.choices("abcdefgh", k=length)) for _ in range(1200))
    return [text for text in drawn if split_of(text) == split]


SHORT, LONG = texts(9, "validation"), texts(99, "train")


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        # Texts have 9 and 99 letters, and each an end: 2,000 of 22,000 tokens; 1,990 of 3,990;
        # 2,000 of 4,000. One of 108 letters more is 109 of 2,109 tokens of validation.
        (SHORT[:200] + LONG[:200], (200, "0.5%", "2,000 of 22,000 tokens (9.1%)")),
        (SHORT[:199] + LONG[:20], (199, "0.5%", "1,990 of 3,990 tokens (49.9%)")),
        (SHORT[:200] + LONG[:20], None),
        (
            [*SHORT[:200], texts(108, "validation")[0], *LONG[:20]],
            (201, "5.2%", "2,109 of 4,109 tokens (51.3%)"),
        ),
    ],
)
def test_little_text_for_validation_is_told(packed, caplog, documents, told):
    manifest = atomic_files.read_json(packed(documents) / atomic_files.MANIFEST)
    assert [r.message for r in caplog.records if "validation" in r.message] == manifest["warnings"]
    if told is None:
        assert manifest["warnings"] == []
        return
    (warning,) = manifest["warnings"]
    count, largest, tokens = told
    assert f"for validation: {count} documents (of 200 that are enough)" in warning
    assert f"the largest {largest} of its tokens (at most 2% is even), {tokens}, so that" in warning
    assert warning.endswith("or set a larger packing.validation_share (0.3)")
