"""The command line: runs what a subcommand stands for, and says what went wrong.

Stages are imported when they are called, so that `pike query` does not wait for torch.
"""

import atexit
import contextlib
import gc
import importlib
import logging
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from pike_mixing.errors import InputError, clone_setup_command
from pipeline import cli, errors
from pipeline.runtime import environment, launch, locks, output_formats, signal_handler

MISTAKE = 2
"""Exit code of what the user can mend; 1 is our fault, `signal_handler.STOPPED` a signal's."""
INTERRUPTED = "interrupted", 130
WITH_TORCH = ("pretrain", "evaluate", "probe", "export")
LEAST_MEMORY = {"torch": 2**30 * 3 // 2, "other": 2**29}
"""Bytes without which libraries end in crashes that nobody can explain."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns its exit code."""
    if sys.stderr is None:
        # Whoever closed it wants to hear nothing.
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - until the end
    signal_handler.reset_sigchld_to_default()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    words = sys.argv[1:] if arguments is None else arguments
    if "" not in sys.path:
        # A rule of the user's own is found where the command is given, as Snakemake's jobs find it.
        sys.path.append("")
    chosen = cli.parse_arguments(words)
    command = chosen.pop("command")
    with signal_handler.record_and_raise_sigints() as interrupts:
        try:
            _print_answer(_run_command(command, chosen, words))
            return 0
        except KeyboardInterrupt:
            return _report_failure(command, *INTERRUPTED)
        except Exception as error:
            if explained := _explain_error(error):
                return _report_failure(command, *explained)
            # DuckDB has an error of its own for what interrupts it.
            if interrupts:
                return _report_failure(command, *INTERRUPTED)
            raise


def _explain_error(error: Exception) -> tuple[str, int] | None:
    """What a user is told of an error, and the exit code; None where the fault is ours."""
    if isinstance(error, InputError):
        return str(error), MISTAKE
    if isinstance(error, signal_handler.Interrupted):
        return str(error), signal_handler.STOPPED
    if shortage := errors.process_resource_shortage_message(error):
        return shortage, MISTAKE
    if isinstance(error, OSError) and errors.is_user_fixable_write_error(error):
        return str(errors.explained_write_error(error)), MISTAKE
    if uncompiled := errors.remedy_for_failed_compilation(error):
        return uncompiled, MISTAKE
    package = (getattr(error, "name", None) or "").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and package in environment.EXTRAS:
        advice = f"in the clone, run `{clone_setup_command(environment.EXTRAS[package])}`"
        return f"{package} is not installed: {advice}", MISTAKE
    return None


def _report_failure(command: str, message: str, code: int) -> int:
    """Says why a command ended; returns its exit code."""
    name = output_formats.colour_text(f"pike {command}:", "red", sys.stderr)
    print(f"{name} {message}", file=sys.stderr)
    return code


def _refuse_little_memory(command: str) -> None:
    """Raises InputError where libraries would end the process while they are loaded."""
    needed = LEAST_MEMORY["torch" if command in WITH_TORCH else "other"]
    if (here := environment.memory_limit_bytes()) < needed:
        raise InputError(
            f"{here / 2**20:,.0f} MiB of memory are allowed (ulimit -v, or the batch system), too "
            f"few to load the libraries of this command: allow {needed / 2**20:,.0f} MiB or more"
        )


def _run_command(command: str, chosen: dict[str, Any], words: Sequence[str]) -> bytes | str | None:
    _refuse_little_memory(command)
    with contextlib.ExitStack() as during:
        if command == "pretrain":
            # Before torch is imported, which takes seconds.
            during.enter_context(signal_handler.ignore_save_signal(chosen["save_on"]))
            minutes = chosen.pop("wait")
            if minutes and not launch.is_under_torchrun_or_own_srun():
                locks.wait_while_lease_held(chosen["given"].parent, minutes)
            chosen = _exec_torchrun_or_adapt_arguments(chosen, words)
        if not (place := chosen.pop("place")):
            # What all stages stand on is imported for a stage alone.
            from pipeline.planning import stages
            from pipeline.runtime import code_fingerprint

            place = stages.STAGES[command]
            # Before it is imported: an edit while it works is then seen.
            code_fingerprint.fingerprint(place.partition(":")[0])
        module, _, function = place.partition(":")
        # To look for garbage among modules takes a tenth of importing torch.
        gc.disable()
        # What is not collected at the end, DuckDB's package calls a leak.
        during.callback(gc.unfreeze)
        try:
            called = getattr(importlib.import_module(module), function)
        finally:
            gc.freeze()
            gc.enable()
        if accelerator := chosen.pop("accelerator", None):
            # It imports torch, which the stage has imported by now.
            from pipeline.runtime import pick_device

            pick_device.claim_gpu_and_warn_of_other(accelerator, chosen["device"])
        return called(chosen.pop("given"), **chosen)


def _exec_torchrun_or_adapt_arguments(
    chosen: dict[str, Any], words: Sequence[str]
) -> dict[str, Any]:
    """The arguments of one process of a training; asked for several, becomes torchrun instead."""
    processes, threads, nodes = chosen["processes"], chosen["threads"], chosen.pop("nodes")
    launch.refuse_several_xla_nodes(nodes, chosen["device"])
    # One process has all chips of a TPU VM.
    if processes == nodes == 1 or chosen["device"] == "xla":
        return chosen
    each = None if threads is None else max(1, threads // processes)
    if not launch.is_under_torchrun():
        launch.exec_torchrun(processes, words, chosen["save_on"], each or 1, nodes)
    return {**chosen, "threads": each}


def _print_answer(answer: bytes | str | None) -> None:
    """Writes a command's answer; a reader who has seen enough (`| head`) is no fault."""
    if sys.stdout is None:
        # Whoever closed it wants no answer.
        return
    try:
        if isinstance(answer, bytes):
            sys.stdout.buffer.write(answer)
        elif isinstance(answer, str):
            print(answer)
        sys.stdout.flush()
    except OSError as error:
        # The interpreter flushes again at its end; nothing must be left to write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return
        if not errors.is_user_fixable_write_error(error):
            raise
        raise errors.explained_write_error(error, Path("the answer")) from error


def _exit_without_teardown(code: int) -> NoReturn:
    """Ends as a fork of `multiprocessing` does: to take all modules apart takes 0.5 s."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _exit_without_teardown(main())
