"""Runs that the workflow trains for a benchmark, and their losses."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from benchmarks.records import ROOT


def train_and_read_losses(
    path: Path, config: Mapping[str, Any], runs: Mapping[Any, Sequence[Path]], cores: int
) -> dict[Any, list[dict[str, float]]]:
    """Validation losses of runs by domain, nats per token, trained and evaluated by the workflow.

    Args:
        path: Where the configuration is written.
        config: The configuration.
        runs: Folders of the runs of each name.
        cores: How many the workflow takes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    evaluations = {name: [run / "evaluations" for run in own] for name, own in runs.items()}
    wanted = [one / "manifest.json" for own in evaluations.values() for one in own]
    command = [str(Path(sys.executable).parent / "snakemake"), "--configfile", str(path)]
    command += ["--profile", "workflow/profiles/default", "--cores", str(cores), "--quiet", "all"]
    targets = [str(one.relative_to(ROOT)) for one in wanted]
    subprocess.run([*command, "--", *targets], check=True, cwd=ROOT)
    return {name: [_losses(one) for one in own] for name, own in evaluations.items()}


def _losses(evaluations: Path) -> dict[str, float]:
    """After the last step, by domain."""
    (path,) = evaluations.glob("step*/perplexities.parquet")
    columns = pq.read_table(path, columns=["domain", "nll"]).to_pydict()
    return dict(zip(columns["domain"], columns["nll"], strict=True))
