import numpy as np

from pipeline.evaluation.batch_layout import row, side_by_side


def laid_out(context, candidates, shared=0):
    arrays = [np.array(candidate, np.int64) for candidate in candidates]
    return row(np.array(context, np.int64), arrays, shared)


def test_a_row_by_hand():
    # a = 1, b = 2 and so on: the example of the module.
    made = laid_out([1, 2, 3], [[4, 5, 6], [7, 8]], shared=1)
    assert made.token_L.tolist() == [2, 3, 4, 5, 7]
    assert made.position_L.tolist() == [1, 2, 3, 4, 3]
    assert made.block_L.tolist() == [0, 0, 1, 1, 2]
    # At c, d and e of the first and g of the second candidate.
    assert made.places == 4
    assert made.place_N.tolist() == [0, 0, 1, 2, 3]
    assert made.target_N.tolist() == [4, 7, 5, 6, 8]
    assert made.candidate_N.tolist() == [0, 1, 0, 0, 1]


def test_rows_are_padded_on_the_right_and_counted_through():
    made = side_by_side([laid_out([1, 2], [[3, 4]]), laid_out([5], [[6], [7, 8, 9]])])
    assert made.token_BxL.tolist() == [[1, 2, 3], [5, 7, 8]]
    made = side_by_side([laid_out([1], [[3], [4]]), laid_out([5], [[6], [7, 8, 9]])])
    assert made.token_BxL.tolist() == [[1, 1, 1], [5, 7, 8]]
    assert made.position_BxL.tolist() == [[0, 0, 0], [0, 1, 2]]
    assert made.block_BxL.tolist() == [[0, -1, -1], [0, 2, 2]]
    assert made.scored_BxL.tolist() == [[True, False, False], [True, True, True]]
    assert made.place_N.tolist() == [0, 0, 1, 1, 2, 3]
    assert made.target_N.tolist() == [3, 4, 6, 7, 8, 9]
    assert made.candidate_N.tolist() == [0, 1, 2, 3, 3, 3]
    assert made.candidates == 4
