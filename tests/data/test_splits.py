import pytest

from pipeline.data.splits import is_validation, text_hash


def test_the_hash_is_the_beginning_of_sha256():
    # printf abc | sha256sum gives ba7816bf8f01cfea...
    assert text_hash("abc") == 0xBA7816BF8F01CFEA


@pytest.mark.parametrize(
    ("hashed", "validation"), [(0, True), (2**62 - 2**20, True), (2**62, False), (2**64 - 1, False)]
)
def test_a_quarter_of_all_hashes_is_for_validation(hashed, validation):
    assert is_validation(hashed, 0.25) is validation


def test_the_share_is_kept():
    # 10,000 texts at 0.1: 1,000, standard deviation 30.
    assert 900 < sum(is_validation(text_hash(str(n)), 0.1) for n in range(10_000)) < 1100
