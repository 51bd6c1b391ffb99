"""Where the default experiment's processor time goes, stage by stage.

    python -m benchmarks.stages --name after [--clone .] [--rounds 3]

Each command runs in turn, in the clone and with its code, on what lies in its results/: one run of
the default experiment, trained and evaluated, is enough. `in a fork` is a command as a workflow on
one machine runs it. The least processor time of the rounds counts. Record:
benchmarks/results/stages.json, by name.
"""

import contextlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import measure
from pipeline.planning import forked_jobs, stages
from pipeline.runtime import fork_client, fork_server

RUN, TOKENIZER = "symbols/nano/mix/seed40", "symbols"
NAME = f"pike-benchmark-{os.getpid()}"
ONE_THREAD = dict.fromkeys(fork_server.THREADS, "1")
Words = Callable[[int], list[str]]
ONE_STEP = {"steps": 1, "warmup_steps": 0, "checkpoint_every": 1, "resume_every": 1}
PARTS = {
    "Python": "pass",
    "torch": "import torch",
    "imports of a training": "import pipeline.training.train",
    "imports of an evaluation": "import pipeline.evaluation.evaluate",
    "code fingerprint": "from pipeline.runtime import code_fingerprint as c; "
    "c.of('pipeline.training.train', 'pike_mixing.rules.mix')",
}


def main() -> None:
    chosen = measure.arguments(__doc__, "stages", name="after", clone=".", rounds=3)
    clone = Path(chosen.clone).absolute()
    with tempfile.TemporaryDirectory() as name:
        parts = {part: lambda _, code=code: ["-c", code] for part, code in PARTS.items()}
        whole = _stages(clone, Path(name))
        alone = {way: partial(_seconds, clone, words) for way, words in (parts | whole).items()}
        server, number = _server(clone)
        forked = {
            f"{way} in a fork": partial(_seconds, clone, words, server=number)
            for way, words in whole.items()
        }
        result = measure.turns(alone | forked, chosen.rounds, warm=0)
        server.communicate()
    least = {way: min(measure.processor(seconds)) for way, seconds in result.items()}
    print(measure.table("seconds", {way: {"processor": s} for way, s in least.items()}))
    measure.record(chosen, {"stages": {chosen.name: least}}, ("stages",))


def _seconds(clone: Path, words: Words, number: int, server: int | None = None) -> measure.Seconds:
    """Processor time of a command, in a process of its own or in a fork of a server."""
    before, own = _used(server), ONE_THREAD
    command = [str(clone / ".venv/bin/python"), *words(number)]
    if server is not None:
        command = [*shlex.split(fork_server.words(NAME)), sys.executable, *words(number)]
        own = ONE_THREAD | {"PYTHONPATH": str(clone)}
    subprocess.run(command, cwd=clone, check=True, capture_output=True, env=os.environ | own)
    return measure.Seconds(0.0, _used(server) - before)


def _used(server: int | None) -> float:
    """Processor seconds of all children of this process, and of a server with its own."""
    result = measure.children_seconds()
    if server is not None:
        stat = Path(f"/proc/{server}/stat").read_text(encoding="utf-8")
        ticks = stat.rpartition(") ")[2].split()[11:15]
        result += sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return result


def _server(clone: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Starts a server with the clone's code; returns it and its process number, once it listens."""
    group = forked_jobs.GROUPS[0]
    modules = {c: stages.STAGES[c].partition(":")[0] for c in group}
    place = shlex.quote(str(clone))
    server = fork_server.start(NAME, modules, f"cd {place}; export PYTHONPATH={place}; ")
    while True:
        with contextlib.suppress(ConnectionRefusedError), socket.socket(socket.AF_UNIX) as client:
            client.connect(f"\0{NAME}/{[*modules][-1]}")
            return server, fork_client.peer(client)[0]
        time.sleep(0.1)


def _stages(clone: Path, scratch: Path) -> dict[str, Words]:
    """The commands of the stages by round; each writes into a folder of its own."""
    results = clone / "results"
    run = results / "runs" / RUN
    shutil.copytree(run, scratch / "run")
    common = ["--corpora", str(results / "corpora" / TOKENIZER), "--device", "cpu"]
    trained = [*common, "--threads", "1"]
    tokenizer = str(results / "tokenizers" / f"{TOKENIZER}.model")
    evaluated = [*common, "--run", str(scratch / "run"), "--tokenizer", tokenizer]

    def stage(name: str, file: str, words: list[str], **other: Any) -> Words:
        values = json.loads((run / file).read_text(encoding="utf-8"))
        changed = {k: {**values[k], **v} if isinstance(v, dict) else v for k, v in other.items()}

        def of_round(_: int) -> list[str]:
            folder = Path(tempfile.mkdtemp(dir=scratch))
            (folder / file).write_text(json.dumps(values | changed), encoding="utf-8")
            return ["-m", "pipeline", name, str(folder / file), *words]

        return of_round

    return {
        "training": stage("pretrain", "run.json", trained),
        "training of one step": stage("pretrain", "run.json", trained, training=ONE_STEP),
        "evaluation": stage("evaluate", "evaluation.json", evaluated),
        "evaluation of the last checkpoint": stage(
            "evaluate", "evaluation.json", evaluated, checkpoints="last"
        ),
    }


if __name__ == "__main__":
    main()
