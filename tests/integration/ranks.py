"""Functions of test modules on two processes that talk through gloo; scripts under torchrun."""

import os
import subprocess
import sys
import traceback
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from faults import CONTEXT

WORLD = 2


def on_two_ranks(function, tmp_path, *args):
    """What `function(rank, *args)` returns on each of two processes."""
    found = tmp_path / f"{function.__name__}.ranks"
    found.mkdir()
    # With what the fork server has loaded, which takes two new processes seconds each.
    method = CONTEXT.get_start_method()
    mp.start_processes(_run, (function, found, args), nprocs=WORLD, start_method=method)
    answers = [torch.load(found / f"{rank}.pt", weights_only=False) for rank in range(WORLD)]
    broken = [text for done, text in answers if not done]
    assert not broken, "\n".join(broken)
    return [answer for _, answer in answers]


def _run(rank, function, found, args):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(WORLD), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "ACCELERATE_USE_CPU": "true"}
    dist.init_process_group("gloo", f"file://{found}/rendezvous", rank=rank, world_size=WORLD)
    try:
        answer = (True, function(rank, *args))
    except Exception:
        answer = (False, f"rank {rank}\n{traceback.format_exc()}")
    torch.save(answer, found / f"{rank}.pt")
    if answer[0]:
        dist.destroy_process_group()
    else:
        # The other may wait for this one for ever.
        os._exit(0)


def torchrun(processes, *words, **environment):
    """The exit code of a script on some processes, and what they say."""
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*start, "--nproc-per-node", str(processes), *map(str, words)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths} | environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    return done.returncode, done.stdout + done.stderr
