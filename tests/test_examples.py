"""The examples run; the one of the README: test_wheel.py."""

import math
import re
import runpy

import pytest
import torch
from repository import ROOT

EXAMPLES = ROOT / "examples"


def test_the_statistics_of_the_example_by_hand():
    module = runpy.run_path(str(EXAMPLES / "own_loop.py"))
    # A logit of 0 or w for each of two symbols: the gradient of a row is 1/2 or -1/2 where the
    # symbol is the second or the first, and the mean over its symbols.
    model = Scale()
    first, second = torch.tensor([[0, 0, 0, 0]]), torch.tensor([[0, 0, 1, 1]])
    measured = module["statistics"](model, [torch.cat([first, second, second, second])])
    # Gradients 1/2, -1/2, -1/2, -1/2: mean -1/4, variance (9/16 + 3/16) / 3 = 1/4.
    assert measured.squared_norm_K.tolist() == pytest.approx([1 / 16])
    assert measured.variance_K.tolist() == pytest.approx([1 / 4])
    assert measured.squared_norm_unbiased_K.tolist() == pytest.approx([1 / 16 - 1 / 16], abs=1e-7)
    assert measured.loss_K.tolist() == pytest.approx([math.log(2)])
    assert measured.rows_K.tolist() == [4]


class Scale(torch.nn.Module):
    """Logits 0 and w of two symbols, whatever came before; w is 0."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(()))

    def forward(self, pairs_BxLx2):
        return torch.stack([0 * self.w, self.w]).expand(*pairs_BxLx2.shape[:2], 2)


@pytest.mark.slow
def test_pike_in_a_loop_of_ones_own(capsys):
    module = runpy.run_path(str(EXAMPLES / "own_loop.py"))
    module["main"]()
    printed = capsys.readouterr().out
    losses = {n: float(v) for n, v in re.findall(r"loss of (\w+): ([\d.]+) nats", printed)}
    # Untrained: ln 48 = 3.87; noise cannot go below ln 16 = 2.77.
    assert losses["counting"] < 0.1
    assert losses["adding"] < 1.5
    assert 2.7 < losses["noise"] < 3
    weights = [[float(w) for w in line.split()[1:]] for line in printed.splitlines()[1:7]]
    assert weights[0] == [0.333, 0.333, 0.333]
    assert all(sum(row) == pytest.approx(1, abs=0.002) for row in weights)
    # Counting is learnt first, then there is more to learn from adding; noise never leads.
    assert weights[1][0] == max(weights[1])
    assert weights[5][1] == max(weights[5])


@pytest.mark.slow
def test_ado_in_a_loop_over_hugging_face_datasets(capsys):
    pytest.importorskip("datasets")
    module = runpy.run_path(str(EXAMPLES / "hugging_face.py"))
    module["main"]()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["step", "sentences", "sums", "letters"]
    counts = {int(step): [int(n) for n in row] for step, *row in lines[1:]}
    assert counts[0] == [8, 8, 8]
    assert all(sum(row) == 24 for row in counts.values())
    # From the first fit on, the random letters, whose loss no longer falls, get the fewest rows.
    assert counts[225][2] == min(counts[225])
    assert counts[225] != [8, 8, 8]
