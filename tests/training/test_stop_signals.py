"""Signals: what is noted of them. What a training does with them: test_training_faults.py."""

import signal
import subprocess
import sys
import threading

import pytest

from pipeline.runtime import signal_handler


@pytest.mark.parametrize("name", signal_handler.SAVES)
def test_the_signal_to_save_is_told_once_and_ends_nothing(name):
    number = signal.Signals[f"SIG{name}"]
    handled = [*signal_handler.STOPS, signal.SIGUSR1, signal.SIGUSR2]
    before = [signal.getsignal(one) for one in handled]
    with signal_handler.handle_signals(name) as asked:
        (other,) = {signal.SIGUSR1, signal.SIGUSR2} - {number}
        assert signal.getsignal(other) == signal.SIG_DFL
        signal.raise_signal(number)
        assert asked.take_save_or_stop_request()
        assert not asked.take_save_or_stop_request()
        asked.raise_if_stop_taken()
    assert [signal.getsignal(one) for one in handled] == before


def test_a_signal_that_comes_while_one_looks_is_told_at_the_next_look():
    class Late:
        """A noted signal, while whose number is made another one comes."""

        def __int__(self):
            asked.note(signal.SIGUSR1, None)
            return 1

    asked = signal_handler.SignalState()
    asked._save = Late()
    assert asked.take_save_or_stop_request()
    assert asked.take_save_or_stop_request()
    assert not asked.take_save_or_stop_request()


@pytest.mark.parametrize("number", signal_handler.STOPS)
def test_a_signal_to_end_asks_for_a_checkpoint_first(number):
    with signal_handler.handle_signals() as asked:
        signal.raise_signal(number)
        assert asked.take_save_or_stop_request()
        with pytest.raises(signal_handler.Interrupted, match=number.name):
            asked.raise_if_stop_taken()


def test_a_second_ctrl_c_does_not_wait():
    with signal_handler.handle_signals():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_torchrun_hands_ctrl_c_on_to_processes_that_had_it_from_the_terminal():
    with signal_handler.handle_signals(alone=False) as asked:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert asked.take_save_or_stop_request()
        with pytest.raises(signal_handler.Interrupted, match="SIGINT"):
            asked.raise_if_stop_taken()


def test_a_thread_that_is_not_the_main_one_notes_nothing():
    found = []

    def work():
        with signal_handler.handle_signals() as asked:
            found.append(asked.take_save_or_stop_request())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]


@pytest.mark.slow
@pytest.mark.parametrize("name", signal_handler.SAVES)
def test_a_signal_to_save_before_the_training_has_begun_ends_nothing(pipeline_command, name):
    """It comes while the modules are imported; the process then says that its file is missing."""
    code = (
        "import os, signal, sys\n"
        "from importlib import abc\n"
        "class Finder(abc.MetaPathFinder):\n"
        "    def find_spec(self, module, *_):\n"
        "        if module in ('torch', 'pipeline.training.train'):\n"
        f"            os.kill(os.getpid(), signal.SIG{name})\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from pipeline.__main__ import main\n"
        f"sys.exit(main(['pretrain', 'none.json', '--corpora', '.', '--save-on', '{name}']))\n"
    )
    command = pipeline_command()
    command["args"] = [sys.executable, "-c", code]
    done = subprocess.run(**command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "none.json does not exist" in done.stderr
