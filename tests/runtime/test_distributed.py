"""One run on several processes: the same numbers, whoever begins it and whoever goes on."""

import pyarrow.parquet as pq
import pytest
import torch
from faults import NUMBERS, cut_off, outcome, train_together
from hypothesis import given
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pike_mixing.torch import parallel
from pipeline.model import checkpoint
from pipeline.runtime import atomic_files, distributed, locks
from pipeline.training import train

TRAINING = {
    "rows": 11,
    "steps": 40,
    "checkpoint_every": 20,
    "resume_every": 5,
    "microbatch_rows": 4,
    "statistics_microbatch": 2,
}
PIKE = {
    "rule": "pike",
    "method": {"zeta1": 0.05, "zeta2": 0.01, "every": 5, "first": 0, "rows": 3}
    | {"batch": "training"},
}

# Who takes which rows.

UNITS = st.sampled_from(["row", "micro-batch"])


@pytest.mark.slow
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 5), UNITS)
def test_every_row_is_dealt_once_and_all_make_the_same_number_of_passes(R, size, n, deal_by):
    rows, hands = torch.arange(R), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "world_size", lambda group: n)
        for rank in range(n):
            patch.setattr(parallel, "rank", lambda group, rank=rank: rank)
            dealt = parallel.deal_micro_batches(R, size, deal_by=deal_by)
            hands.append([(rows[own], counts) for own, counts in dealt])
    assert len({len(hand) for hand in hands}) == 1
    counted = [piece for hand in hands for piece, counts in hand if counts]
    assert sorted(torch.cat(counted).tolist()) == list(range(R))
    assert all(len(piece) <= size for piece in counted)
    if deal_by == "micro-batch":
        alone = [piece.tolist() for piece in rows.split(size)]
        assert sorted(piece.tolist() for piece in counted) == alone


def test_one_process_takes_all_rows_in_their_order():
    pieces = parallel.deal_micro_batches(5, 2)
    found = [(list(range(5)[own]), counts) for own, counts in pieces]
    assert found == [([0, 1], 1.0), ([2, 3], 1.0), ([4], 1.0)]


def test_shards_without_several_processes_are_refused(make_run, corpora):
    with pytest.raises(InputError, match="--shard is for several processes"):
        train.pretrain(make_run(), corpora, device="cpu", shard=True)


def test_several_processes_on_xla_are_refused(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="several processes cannot train on xla: start the run al"):
        distributed.join_processes(torch.device("xla"))


# Two processes against one.


@pytest.fixture(scope="module")
def by_one(write_run, corpora):
    """Trains a run of PiKE, or of another method, on one process; its folder."""

    def trained(folder, training=TRAINING, **method):
        run = write_run(folder, training=training, **(method or PIKE))
        train.pretrain(run, corpora, device="cpu", threads=1)
        return folder

    return trained


@pytest.fixture(scope="module")
def by_two(write_run, corpora):
    """The same on two processes."""

    def trained(folder, *options, training=TRAINING, **method):
        go_on(write_run(folder, training=training, **(method or PIKE)), corpora, *options)
        return folder

    return trained


def go_on(run, corpora, *options):
    codes = train_together(run, corpora, *options)
    assert codes == [0, 0], run.parent.with_suffix(".log").read_text()


@pytest.fixture(scope="module")
def alone(tmp_path_factory, by_one):
    return by_one(tmp_path_factory.mktemp("alone"))


@pytest.fixture(scope="module")
def replicated(tmp_path_factory, by_two):
    return by_two(tmp_path_factory.mktemp("replicated"))


def same(folder, expected):
    """Makes sure that all numbers are the same but for the order of sums."""
    for table, columns in NUMBERS.items():
        ours, theirs = (pq.read_table(place / f"{table}.parquet") for place in (folder, expected))
        assert len(ours) == len(theirs)
        for column in columns:
            wanted = pytest.approx(theirs[column].to_pylist(), rel=1e-6, nan_ok=True)
            if column in ("gradient_norm", "squared_norm", "variance"):
                wanted.rel = 1e-5
            assert ours[column].to_pylist() == wanted, (table, column)
    ours, theirs = (
        checkpoint.load_model(max(atomic_files.step_entries(place / "checkpoints").items())[1])
        for place in (folder, expected)
    )
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_two_processes_train_as_one_does(replicated, alone):
    same(replicated, alone)
    found = atomic_files.read_json(replicated / atomic_files.MANIFEST)
    assert (found["processes"], found["checkpoints"]) == (2, [0, 20, 40])


@pytest.mark.slow
def test_shards_train_in_bfloat16(tmp_path, by_one, by_two):
    """Weights of blocks are rounded before they are put together, gains of their norms too."""
    training = {**TRAINING, "steps": 8, "checkpoint_every": 8, "precision": "bfloat16"}
    places = (
        by_two(tmp_path / "two", "--shard", training=training),
        by_one(tmp_path / "alone", training),
    )
    losses, norms = (
        [pq.read_table(place / "steps.parquet")[column].to_pylist() for place in places]
        for column in ("loss", "gradient_norm")
    )
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert norms[0][0] == pytest.approx(norms[1][0], rel=1e-4)
    # After some steps bfloat16 itself is so far from float32.
    assert norms[0] == pytest.approx(norms[1], rel=0.05)


@pytest.mark.slow
def test_shards_train_in_compiled_blocks_and_go_on_with_the_same_bits(
    tmp_path, by_one, by_two, corpora
):
    # Two passes of one shape: each further shape is compiled anew.
    training = {**TRAINING, "rows": 8, "microbatch_rows": 2}
    training |= {"steps": 4, "checkpoint_every": 2, "resume_every": 2}
    method = {"rule": "mix", "method": {}}
    whole = by_two(tmp_path / "two", "--shard", training=training | {"compile": True}, **method)
    same(whole, by_one(tmp_path / "alone", training, **method))
    begun = cut_off(whole, tmp_path / "begun", 4)
    go_on(begun, corpora, "--shard")
    assert outcome(begun.parent) == outcome(whole)


@pytest.mark.slow
def test_moments_of_each_domain_are_those_of_one_process(tmp_path, by_one, by_two, corpora):
    """Whole, and in shards that go on from a checkpoint of whole ones."""
    method = {"training": {**TRAINING, "steps": 8, "checkpoint_every": 4}, "rule": "adatask"}
    one = by_one(tmp_path / "alone", **method)
    for name, options in {"whole": (), "shards": ("--shard",)}.items():
        same(by_two(tmp_path / name, *options, **method), one)
    begun = cut_off(tmp_path / "whole", tmp_path / "begun", 8)
    go_on(begun, corpora, "--shard")
    same(begun.parent, one)


@pytest.mark.slow
def test_two_processes_with_shards_go_on_where_one_was_killed(alone, tmp_path, corpora):
    run = cut_off(alone, tmp_path / "run", 40)
    go_on(run, corpora, "--shard")
    assert atomic_files.read_json(run.parent / "starts.json") == [0, 20]
    same(run.parent, alone)


@pytest.mark.slow
def test_one_process_goes_on_where_two_were_killed(replicated, alone, tmp_path, corpora):
    run = cut_off(replicated, tmp_path / "run", 40)
    train.pretrain(run, corpora, device="cpu", threads=1)
    assert atomic_files.read_json(run.parent / "starts.json") == [0, 20]
    same(run.parent, alone)


# What goes wrong. Signals and kills: tests/training/test_training_faults.py.


def said_once(run, corpora):
    assert all(train_together(run, corpora))
    log = run.parent.with_suffix(".log").read_text()
    assert log.count("pike pretrain: ") == 1
    return log


@pytest.mark.slow
def test_a_mistake_of_all_and_one_that_the_first_alone_finds_are_said_once(make_run, corpora):
    few = make_run("few", training={"rows": 1})
    assert "2 processes, but training.rows of 1" in said_once(few, corpora)
    run = make_run()
    with locks.acquire_lease(run.parent):
        told = said_once(run, corpora)
    assert "is being written by process" in told
    assert "Connection closed by peer" not in told
