"""Snakemake in forks of one process that has loaded it: half of a dry run's time is its imports.

The pipeline itself is loaded by each fork, from its working folder. Run as a program this module is
that process: each line of its input is a request, each of its output the exit code.
"""

import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

LOADED = ("pandas", "pulp", "snakemake.cli", "snakemake_executor_plugin_slurm")


SECONDS = 900
"""After which a run is killed."""


class Forks:
    """The process, from the outside."""

    def __init__(self, log):
        """Starts it; what Snakemake prints goes to the file `log`, anew at each run."""
        self.log = log
        environment = {n: v for n, v in os.environ.items() if n != "PYTHONPATH"}
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            env={**environment, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, arguments, folder, environment):
        """`python -m snakemake` with these arguments in a folder."""
        given = {"arguments": arguments, "folder": str(folder), "environment": environment}
        self.process.stdin.write(json.dumps({**given, "log": str(self.log)}) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        return subprocess.CompletedProcess(arguments, code, self.log.read_text(encoding="utf-8"))

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=60)


def _serve():
    for name in LOADED:
        try:
            __import__(name)
        except ImportError:
            continue
    loaded = [name for name in sys.modules if name.partition(".")[0] in ("pipeline", "pike_mixing")]
    assert not loaded, f"each fork loads its own: {loaded}"
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _become(**request)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


def _become(arguments, folder, environment, log):
    """In the fork: what `python -m snakemake` does, and no way back."""
    code = 1
    signal.alarm(SECONDS)
    try:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        with Path(log).open("wb") as file:
            for descriptor in (1, 2):
                os.dup2(file.fileno(), descriptor)
        sys.path[0] = folder
        sys.argv = ["snakemake", *arguments]
        from snakemake.cli import main

        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
