"""Has a command run by a fork server, or runs it as it stands.

    python -I -S fork_client.py FOLDER PYTHON -m pipeline COMMAND ...

It imports nothing of ours and little else: it starts in a tenth of the time of `import numpy`.
Signals that it gets it hands on, and it ends as the command ends.
"""

import json
import os
import signal
import socket
import sys

ACCEPTED, DECLINED = b"+", b"-"
HANDED_ON = ("TERM", "INT", "HUP", "USR1", "USR2", "TSTP", "CONT")


def main() -> None:
    """Ends as the command does, or becomes it."""
    folder, *command = sys.argv[1:]
    numbers = {signal.Signals[f"SIG{name}"] for name in HANDED_ON}
    # One that comes before there is anybody to hand it to waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(f"{folder}/{command[3]}")
            accepted = _asked(server, command)
        except OSError:
            accepted = False
        if accepted:
            _end(_status(server, numbers))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    os.execv(command[0], command)


def _asked(server: socket.socket, command: list[str]) -> bool:
    """Sends the command, with all that it takes over from this process; whether it is run."""
    folder = os.getcwd()  # noqa: PTH109 - pathlib takes as long to import as all the rest
    request = json.dumps([command, folder, dict(os.environ)]).encode()
    socket.send_fds(server, [len(request).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(request)
    return server.recv(1) == ACCEPTED


def _status(server: socket.socket, numbers: set[signal.Signals]) -> int:
    """How the command ended, as `os.wait` says it."""

    def hand_on(number: int, _: object) -> None:
        server.send(bytes([number]))
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)

    for number in numbers:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, hand_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    answer = server.recv(4)
    if len(answer) < 4:
        sys.exit("the process that ran this job has been killed: start the workflow again")
    return int.from_bytes(answer, "big")


def _end(status: int) -> None:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main()
