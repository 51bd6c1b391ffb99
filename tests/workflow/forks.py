"""Python commands in forks of one process that has loaded Snakemake and the packages of others.

Most of the time of a dry run or of a question is such imports. The pipeline itself is loaded by
each fork, from its working folder. Run as a program this module is that process: each line of its
input is a request, each of its output the exit code.
"""

import atexit
import json
import os
import runpy
import signal
import subprocess
import sys
import traceback
from pathlib import Path

LOADED = (
    *("duckdb", "jinja2", "numpy", "pandas", "pulp", "pyarrow.parquet", "pydantic", "smart_open"),
    *("snakemake.cli", "snakemake_executor_plugin_slurm", "snakemake_logger_plugin_rich"),
)

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

    def run(self, words, folder, environment):
        """`python -m` with these words in a folder."""
        given = {"words": words, "folder": str(folder), "environment": environment}
        self.process.stdin.write(json.dumps({**given, "log": str(self.log)}) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        return subprocess.CompletedProcess(words, code, self.log.read_text(encoding="utf-8"))

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
    # It loads Snakemake's plugins.
    sys.modules["snakemake.cli"].get_argument_parser()
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


def _become(words, folder, environment, log):
    """In the fork: what `python -m` does, and no way back."""
    code = 1
    signal.alarm(SECONDS)
    try:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        with Path(log).open("wb") as file:
            for descriptor in (1, 2):
                os.dup2(file.fileno(), descriptor)
        further = environment.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:1] = [folder, *filter(None, further)]
        sys.argv = words
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        # What a process does at its end: the pipeline remembers digests then.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
