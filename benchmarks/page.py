"""docs/performance.md, from the recorded results.

    python -m benchmarks.page [--check]

Every number on the page is read from benchmarks/results/*.json; `--check` only says whether the
page is that of the results.
"""

import argparse
import json
import sys
from pathlib import Path

from benchmarks.bar import Bar, Record
from benchmarks.bars import BENCHMARKS, UNMEASURED

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "performance.md"

HEAD = """# Performance

Made by `python -m benchmarks.page` from `benchmarks/results/*.json`; do not edit. Each benchmark
is a command that runs ours and its peers in turn, in one process where that is possible, and
records medians with the machine that it ran on. `make bench` runs all but that of a GPU. Processor
time says more than the clock on a machine that does something else beside; the load is stated.
Records that have no bar of their own lie beside the others.
"""


def main() -> None:
    """Writes or checks the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    chosen, text = parser.parse_args(), page(RESULTS)
    if not chosen.check:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PAGE} is not that of the results: run python -m benchmarks.page")


def page(results: Path) -> str:
    """The page of a folder of results."""
    records = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(results.glob("*.json"))
    }
    parts = [HEAD]
    for name, (title, command, read) in BENCHMARKS.items():
        if name in records:
            parts.append(_section(title, command, records[name], read(records[name])))
        elif name in UNMEASURED:
            head = f"## {title}\n\nNot measured: `{command}`. {UNMEASURED[name]}.\n"
            parts.append("\n".join([head, *_table(read({})), ""]))
        else:
            parts.append(f"## {title}\n\nNot recorded yet: `{command}`.\n")
    return "\n".join(parts)


def _section(title: str, command: str, record: Record, bars: list[Bar]) -> str:
    lines = _table(bars)
    missed: dict[str, list[str]] = {}
    for bar in bars:
        if bar.holds is False and bar.why:
            missed.setdefault(bar.why, []).append(bar.what)
    told = [f"- {'; '.join(those)}: {why}." for why, those in missed.items()]
    reasons = ["", "Why a bar is missed:", "", *told] if told else []
    reasons += _missing(record)
    return "\n".join(
        [f"## {title}", "", f"`{command}`, {_where(record)}.", "", *lines, *reasons, ""]
    )


def _table(bars: list[Bar]) -> list[str]:
    head = ["| what | measured | bar | holds | peer |", "| --- | ---: | ---: | --- | --- |"]
    return head + [_row(bar) for bar in bars]


def _missing(record: Record) -> list[str]:
    """Packages that were to be measured and were not there, and what installs each."""
    missing = record.get("missing", {})
    told = ", ".join(f"{name} ({how})" for name, how in missing.items())
    return ["", f"Not measured, since they were not installed: {told}."] if missing else []


def _row(bar: Bar) -> str:
    bound = ""
    if bar.least is not None:
        bound = f"at least {bar.form.format(bar.least)}"
    if bar.most is not None:
        bound = f"at most {bar.form.format(bar.most)}"
    holds = {True: "yes", False: "**no**", None: ""}[bar.holds]
    peer = bar.peer + ("" if bar.theirs is None else f": {bar.form.format(bar.theirs)}")
    ours = "not measured" if bar.ours is None else bar.form.format(bar.ours)
    return f"| {bar.what} | {ours} | {bound} | {holds} | {peer} |"


def _where(record: Record) -> str:
    """The date and the machine of a record, as far as it says."""
    machine = record.get("machine", {})
    facts = [record.get("date", "no date"), machine.get("processor") or "unnamed processor"]
    facts.append(f"{machine['cpus']} CPUs" if "cpus" in machine else "")
    if "threads" in machine:
        facts.append(f"{machine['threads']} thread{'s' if machine['threads'] > 1 else ''}")
    facts.append(f"torch {machine['torch']}" if "torch" in machine else "")
    facts += [f"{name} {version}" for name, version in record.get("versions", {}).items()]
    loads = {size: how["machine"] for size, how in record.get("of_size", {}).items()}
    for size, there in (loads or {"": machine}).items():
        if "load_before" in there:
            span = f"{there['load_before']:.1f} to {there['load_after']:.1f}"
            facts.append(f"load {span}" + (f" ({size})" if size else ""))
    return ", ".join(filter(None, facts))


if __name__ == "__main__":
    main()
