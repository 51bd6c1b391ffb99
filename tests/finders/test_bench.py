"""The bench of methods: its folds, its scores, strangers' files, and the log of the sealed part."""

import csv
import dataclasses
import json

import documented
import numpy as np
import pytest
from known_law import DOMAINS, proxies

from pike_mixing import bench
from pike_mixing.errors import InputError
from pike_mixing.finders.interface import Swarm

(METHOD,) = documented.blocks("docs/finders.md", "python")


@pytest.fixture
def few(monkeypatch):
    """Four folds of 64 runs of a known law, in the place of the public tables."""
    parts = bench.make_next_block_folds("known at 1M", Swarm(DOMAINS, proxies(256, noise=0.02)))
    monkeypatch.setattr(bench, "unsealed_folds", lambda tables: parts)
    monkeypatch.setattr(bench, "RUNS", (32,))
    return parts


def test_blocks_are_the_same_for_everybody_and_share_no_mixture():
    weights_NxK = np.array([[n / 10, 1 - n / 10] for n in range(10)])
    # By the SHA-256 of "0.000000,1.000000", "0.100000,0.900000" and so on.
    assert [block.tolist() for block in bench.full_blocks_in_hash_order(weights_NxK)] == BLOCKS
    # The order of the rows does not matter.
    again = bench.full_blocks_in_hash_order(weights_NxK[::-1])
    assert [[9 - n for n in block] for block in again] == BLOCKS
    for fold in bench.make_next_block_folds(
        "known", Swarm(DOMAINS, proxies(256)), {"large": Swarm(DOMAINS, proxies(9))}
    ):
        train, test, large = (
            {tuple(w.round(6)) for w in swarm.weights_and_losses()[0]} if swarm.runs else set()
            for swarm in (fold.train, fold.tests["known"], fold.tests["large"])
        )
        assert (len(train), len(test)) == (128, 128)
        assert not train & test
        assert large <= test


BLOCKS = [[1, 4, 3, 7, 6], [0, 8, 5, 2, 9]]


def test_scores_by_hand():
    # Of the pairs 1-2, 1-3, 2-3 the last is the wrong way round, and a tie counts half.
    accuracy = bench.pairwise_accuracies(
        np.array([[1.0, 3, 2], [1, 2, 2]]), np.array([[1.0, 2, 3]] * 2)
    )
    assert accuracy.tolist() == pytest.approx([2 / 3, 5 / 6])
    # Two folds of two targets: 0.25, with both parts of the interval.
    mean, half, _ = bench.mean_over_folds_and_targets(np.array([[0.1, 0.2], [0.3, 0.4]]))
    assert mean == pytest.approx(0.25)
    assert half > 12.7 * 0.1
    # Three targets gain 0.1 to 0.12 on both folds; the fourth, the mean of all, counts not.
    first = [[0.60, 0.71, 0.82, 9], [0.61, 0.72, 0.80, 9]]
    second = [[0.50, 0.60, 0.70, 0], [0.50, 0.60, 0.70, 0]]
    one, other = (
        {"method": name, "cells": {"x|32": {"spearman": values}}}
        for name, values in (("one", first), ("other", second))
    )
    (row,) = bench.scores_minus_board(one, [one, other])
    assert (row["against"], row["measure"]) == ("other", "spearman")
    assert row["difference"] == pytest.approx((0.10 + 0.11 + 0.12 + 0.11 + 0.12 + 0.10) / 6)


@pytest.mark.slow
def test_a_strangers_file_is_scored_beside_the_board(few, tmp_path, said):
    mine, board = tmp_path / "mine.py", tmp_path / "board.json"
    mine.write_text(METHOD)
    assert "linear" in said(
        "bench", "linear", "mixing-law", "--save", board, "--jobs", 1, "--board", empty(tmp_path)
    )
    text = said("bench", mine, "--board", board, "--jobs", 1, "--save", tmp_path / "mine.json")
    (record,) = json.loads((tmp_path / "mine.json").read_text())["methods"]
    linear, law = json.loads(board.read_text())["methods"]
    ours = record["cells"]["known at 1M|32"]
    assert ours["targets"] == [*DOMAINS, bench.MEAN]
    assert ours["spearman"] == linear["cells"]["known at 1M|32"]["spearman"]
    assert np.shape(ours["coverage"]) == (2, 4)
    assert np.mean(law["cells"]["known at 1M|32"]["spearman"]) > 0.95
    # Two folds of three targets tell no difference from either method in three measures.
    assert "mine: 0 of 6 differences from the board have p < 0.05, after Holm's" in text
    assert said("bench", "--board", board).startswith("method")


def empty(folder):
    path = folder / "none.json"
    path.write_text('{"methods": []}')
    return path


def test_what_fails_is_said_and_what_is_no_method_refused(few, tmp_path, said):
    broken = tmp_path / "broken.py"
    for body, message in (
        ("return 1 / 0", "ZeroDivisionError: division by zero"),
        ("return weights", "not finite (64, 2)"),
        ("return np.nan * weights[:, :2]", "not finite (64, 2)"),
    ):
        text = METHOD.replace("return weights @ fitted  # or (losses, spreads)", body)
        broken.write_text(text)
        two = [dataclasses.replace(r, loss_K=r.loss_K[:2]) for r in few[0].train.runs]
        part = dataclasses.replace(few[0], train=Swarm(DOMAINS, two, ("x", "y")))
        part = dataclasses.replace(part, tests={"here": Swarm(DOMAINS, two[:64], ("x", "y"))})
        assert message in bench.score_on_test_swarms(str(broken), part, 32)["here"]["failed"]
    broken.write_text("fit = 3")
    assert "has no function fit" in said("bench", broken, "--board", empty(tmp_path), code=2)
    assert "did you mean 'scheffe'" in said("bench", "schefe", "--board", empty(tmp_path), code=2)
    assert "holds no scores" in said("bench", "--board", tmp_path / "broken.py", code=2)


def test_the_sealed_part_is_opened_by_one_command_that_writes_the_log_first(
    tmp_path, said, monkeypatch
):
    log = tmp_path / "sealed_openings.csv"
    found = []

    def opened(tables):
        found.append(list(csv.DictReader(log.open())))
        raise InputError("nothing is opened by a test")

    monkeypatch.setattr(bench, "sealed_folds", opened)
    (tmp_path / "mine.py").write_text(METHOD)
    for who in ("Ada", "Grace"):
        ask = ["bench", tmp_path / "mine.py", "--open-sealed", who, "--log", log]
        said(*ask, "--tables", "olmix-reuse.csv.gz", code=2)
    assert [row["who"] for row in found[1]] == ["Ada", "Grace"]
    assert found[0][0]["opened"] == "regmix at 1B; olmix-reuse.csv.gz"
    assert len(found[0][0]["sha256"]) == 64
    said("bench", "linear", "--open-sealed", "Ada", "--log", tmp_path, code=2)
    assert len(found) == 2
    # The method behind the tables would be taken for one of them, and the board shown instead.
    for option in (["--open-sealed", "Ada"], ["--tables", "a.csv", "mine.py"], ["--save", "a"]):
        told = said("bench", *option, code=2)
        assert f"{option[0]}: name the method that is scored, before the options" in told
    monkeypatch.undo()
    sealed = ["bench", "linear", "--tables", "olmix-reuse.csv.gz", "--board", empty(tmp_path)]
    assert "is sealed: --open-sealed WHO" in said(*sealed, code=2)
