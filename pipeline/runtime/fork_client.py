"""Has a command run by a fork server, or runs it as it stands.

    python -I -S fork_client.py SERVER PYTHON -m pipeline COMMAND ...

It imports nothing of ours and little else: it starts in a tenth of the time of `import numpy`.
Signals that it gets it hands on, and it ends as the command ends.
"""

import contextlib
import json
import os
import signal
import socket
import struct
import sys

HANDED_ON = ("TERM", "INT", "HUP", "USR1", "USR2", "TSTP", "CONT")


def main() -> None:
    name, *command = sys.argv[1:]
    numbers = {signal.Signals[f"SIG{name}"] for name in HANDED_ON}
    # One that comes before there is anybody to hand it to waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(f"\0{name}/{command[3]}")
            job = (
                request_forked_process_id(server, command)
                if peer_user_id(server) == os.getuid()
                else None
            )
        except OSError:
            job = None
        if job:
            exit_like(await_status(server, job, numbers))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    os.execv(command[0], command)


def peer_user_id(connection: socket.socket) -> int:
    """Number of the user at the other end: anybody may listen and connect."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", credentials)[1])


def request_forked_process_id(server: socket.socket, command: list[str]) -> int | None:
    """Number of the process that runs the command, with all of this process; None if none does."""
    folder = os.getcwd()  # noqa: PTH109 - pathlib takes as long to import as all the rest
    server.sendall(json.dumps([command, folder, dict(os.environ)]).encode())
    # They end the request: a server has no file open of one that is not whole.
    socket.send_fds(server, [b"\n"], [0, 1, 2])
    return int.from_bytes(server.recv(4), "big") or None


def await_status(server: socket.socket, job: int, numbers: set[signal.Signals]) -> int:
    """How the process `job` ended, as `os.wait` says it; it gets the signals of this one."""

    def forward_signal(number: int, _: object) -> None:
        # A job that has ended needs none: how it ended waits to be read, as after SIGSTOP.
        with contextlib.suppress(OSError):
            # A session without a terminal does not stop by SIGTSTP.
            os.kill(job, signal.SIGSTOP if number == signal.SIGTSTP else number)
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)

    for number in numbers:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, forward_signal)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    try:
        answer = server.recv(4)
    except OSError:
        answer = b""
    if len(answer) < 4:
        sys.exit("the process that ran this job has been killed: start the workflow again")
    return int.from_bytes(answer, "big")


def exit_like(status: int) -> None:
    """Ends this process as one of that status ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main()
