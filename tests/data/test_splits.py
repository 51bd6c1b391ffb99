import pytest

from pipeline.data.corpus_settings import is_held_out, is_in_search_split, text_hash


def test_the_hash_is_the_beginning_of_sha256():
    # printf abc | sha256sum gives ba7816bf8f01cfea...
    assert text_hash("abc") == 0xBA7816BF8F01CFEA


@pytest.mark.parametrize(
    ("hashed", "held_out"), [(0, True), (2**62 - 2**20, True), (2**62, False), (2**64 - 1, False)]
)
def test_a_quarter_of_all_hashes_is_held_out(hashed, held_out):
    assert is_held_out(hashed, 0.25) is held_out


def test_of_those_held_out_a_tenth_is_for_searches():
    # A fifth is held out: 0.2 of 2^64; searches read the first 0.02 of it.
    places = [int(share * 2**64) for share in (0.0, 0.0199, 0.0201, 0.1999, 0.2001)]
    assert [is_in_search_split(place, 0.2) for place in places] == [True, True, False, False, False]
    assert [is_held_out(place, 0.2) for place in places] == [True, True, True, True, False]
