"""The writer's thread, with pieces of work that wait for the test."""

import logging
import threading

import pytest

from pike_mixing.errors import InputError
from pipeline.runtime.signal_handler import Interrupted
from pipeline.training.run_folder import BackgroundWriter


def failing():
    raise InputError("the disk is full")


def test_work_is_done_meanwhile_and_one_after_the_other():
    go, done = threading.Event(), []
    with BackgroundWriter() as writer:
        writer.start(lambda: done.append(go.wait(20)))
        assert done == []
        threading.Timer(0.05, go.set).start()
        # Begun only once the first is done.
        writer.start(lambda: done.append(len(done)))
        assert done[0] is True
        writer.wait()
        assert done == [True, 1]


def test_what_goes_wrong_is_raised_at_the_next_call_and_once():
    with BackgroundWriter() as writer:
        writer.start(failing)
        with pytest.raises(InputError, match="the disk is full"):
            writer.start(lambda: None)
        writer.wait()
        writer.start(failing)
        with pytest.raises(InputError, match="the disk is full"):
            writer.wait()


def test_the_end_waits_and_raises_what_went_wrong_also_where_it_was_asked_for():
    def stopped(work):
        with BackgroundWriter() as writer:
            writer.start(work)
            raise Interrupted

    done = []
    with pytest.raises(Interrupted):
        stopped(lambda: done.append(threading.Event().wait(0.05)))
    assert done == [False]
    with pytest.raises(InputError, match="the disk is full"), BackgroundWriter() as writer:
        writer.start(failing)
    with pytest.raises(InputError, match="the disk is full"):
        stopped(failing)


def test_an_error_under_way_is_not_replaced_and_is_waited_behind(caplog):
    done = []

    def slow():
        done.append(threading.Event().wait(0.05))
        failing()

    def interrupted():
        with BackgroundWriter() as writer:
            writer.start(slow)
            raise KeyboardInterrupt

    with caplog.at_level(logging.WARNING, "pike"), pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == [False]
    assert "the disk is full" in caplog.text
