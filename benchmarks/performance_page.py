"""docs/performance.md, from the recorded results.

    python -m benchmarks.performance_page

benchmarks/performance_page.csv has a row of the page in each line: `measured` and `theirs` are
places in the benchmark's record, keys joined by colons, or two of them with " / " or " - " between;
`form` writes the number; `bound` is the bar, "at least 1.05" or "at most 2", if there is one.
"""

import csv
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.records import RESULTS, ROOT

ROWS = ROOT / "benchmarks" / "performance_page.csv"
PAGE = ROOT / "docs" / "performance.md"
HEAD = """# Performance

Made by `python -m benchmarks.performance_page` from `benchmarks/results/*.json` and
`benchmarks/performance_page.csv`; do not edit. Ours and its peers take turns; medians are shown.
`make bench` makes all but that of a GPU (`make gpu-check`). On a busy machine (load) processor time
says more. Bars in bold are missed.
"""
BENCHMARKS = {
    "training": (
        "Training steps",
        "training",
        "Ours multiplies by oneDNN, with AVX-512; peers by MKL, on this processor without. `lean` "
        "has no norms over queries and keys; the paper's model has. The record has slower peers, "
        "too.\n\n"
        "Smaller models wait for other things. Of a step of nano (1,024 tokens, 131,520 "
        "parameters), profiled on 2026-11-29 in processor time,\n\n"
        "- 24% are its 27 products, at 0.7 of the rate of large ones (240 GFLOP/s on a core of "
        "this kind); the whole step reaches about a fifth of that rate;\n"
        "- 33% are other kernels: 19% in the backward pass, 10% norms, attention and GELU, 4% the "
        "softmax of the loss;\n"
        "- 7% are the optimizer and clipping, 4% reading rows, 4% the records;\n"
        "- 28% are Python between the kernels;\n"
        "- nothing that leaves all bits as they are made a difference that four turns show. A "
        "block in one kernel would, with other bits, or more tokens in a step.",
    ),
    "precision": (
        "bfloat16 on a processor",
        "precision",
        "nano is the default experiment's model (0.2 M parameters), micro has 0.5 M, small 4.2 M.",
    ),
    "measuring_cost": (
        "Gradient statistics",
        "measuring_cost",
        "The paper gives PiKE 1.2% to 2.4%. At nano and micro (here: 2,048 words) a firing step "
        "passes 24 rows of 64 tokens in twelve parts.",
    ),
    "mixing": ("Mixing rules", "mixing", ""),
    "loss": (
        "The loss over a large vocabulary",
        "loss",
        "All need the same three products; ours are oneDNN's where a processor has AVX-512.",
    ),
    "scoring-harness": (
        "Multiple-choice questions",
        "scoring",
        "The peer is lm-evaluation-harness's Hugging Face back end. All picks are the same.",
    ),
    "packing": ("Packing", "packing", "litdata calls the same encoder."),
    "reading": (
        "Reading",
        "reading",
        "A batch is 256 rows of 1,024 tokens of 6 domains. Three readers take turns: one batch in "
        "caches that the others have filled, then nine more.",
    ),
    "memory": (
        "Memory",
        "memory",
        "With torch imported a process holds 260 MB. Shared pages are divided among those that map "
        "them.",
    ),
    "planning": ("Planning", "planning", ""),
    "gpu_utilisation": (
        "A GPU",
        "gpu_check",
        "Steps of 256 x 1,024 tokens in bfloat16; utilisation: of the card's matrix products.",
    ),
}
"""By record: title, module, and a remark on the numbers as they are recorded."""


def value(record: dict[str, Any], place: str) -> float | None:
    """The number at a place of a record; None where nothing was measured."""
    for sign in (" / ", " - "):
        if sign in place:
            a, b = (value(record, part) for part in place.split(sign))
            if a is None or b is None:
                return None
            return a / b if sign == " / " else a - b
    result: Any = record
    for key in place.split(":"):
        result = result.get(key) if isinstance(result, dict) else None
    return result


def line(record: dict[str, Any], row: dict[str, str]) -> str:
    ours, bar = value(record, row["measured"]), row["bound"]
    theirs = value(record, row["theirs"])
    if bar:
        sense, _, number = bar.rpartition(" ")
        bar = f"{sense} {row['form'].format(float(number))}"
        if ours is not None and (
            ours < float(number) if sense == "at least" else ours > float(number)
        ):
            bar = f"**{bar}**"
    shown = "not measured" if ours is None else row["form"].format(ours)
    peer = row["peer"] + ("" if theirs is None else f": {row['form'].format(theirs)}")
    return f"| {row['what']} | {shown} | {bar} | {peer} |"


def where(record: dict[str, Any]) -> str:
    """The date and the machine of a record, as far as it says."""
    machine = record.get("machine", {})
    facts = [record.get("date", "not recorded yet"), record.get("device", "")]
    facts += [machine.get("processor", "")]
    for name, form in (("cpus", "CPUs: {}"), ("threads", "threads: {}"), ("torch", "torch {}")):
        facts += [form.format(machine[name])] if name in machine else []
    facts += [f"{name} {version}" for name, version in record.get("versions", {}).items()]
    loads = defaultdict[str, list[str]](list)
    for size, how in (record.get("of_size") or {"": record}).items():
        if "load_before" in (there := how.get("machine", {})):
            loads[f"load {there['load_before']:.1f} to {there['load_after']:.1f}"].append(size)
    facts += [f"{n} ({', '.join(s)})" if len(loads) > 1 else n for n, s in loads.items()]
    return ", ".join(filter(None, facts))


def page(results: Path) -> str:
    with ROWS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    text = HEAD
    for name, (title, module, remark) in BENCHMARKS.items():
        path = results / f"{name}.json"
        record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        text += f"\n## {title}\n\n`python -m benchmarks.{module}`: {where(record)}.\n\n"
        text += f"{remark}\n\n" if remark and record else ""
        text += "| what | measured | bar | peer |\n| --- | ---: | ---: | --- |\n"
        text += "".join(f"{line(record, row)}\n" for row in rows if row["benchmark"] == name)
    return text


if __name__ == "__main__":
    PAGE.write_text(page(RESULTS), encoding="utf-8")
