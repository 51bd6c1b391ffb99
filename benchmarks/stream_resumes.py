"""docs/streams.md: which releases of `datasets` resume a stream at the right row.

    python -m benchmarks.stream_resumes [--releases 4.8.4 5.2.0] [--since 3.2]

Every release on PyPI is tried in a folder that shadows the installed one. Releases that were tried
before and are not named stay in the record. Each stream is read, its state is saved as JSON after
some rows and loaded into a new stream, once or several times. The rows must be those of a stream
that never stopped:

    theirs  the stream alone, with its own `state_dict`; the loop keeps the epoch, and sets it
    ours    the stream as the one domain of a `MixedDataset`

Record: benchmarks/results/stream_resumes.json.
"""

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import measure, records
from pike_mixing.torch import MixedDataset
from pike_mixing.torch.streams import copy_if_stateful

PAGE = records.ROOT / "docs" / "streams.md"
ROWS = 240
FURTHER = 40
"""Rows that are read after the last stop."""
NEEDED = ("aiohttp", "httpx", "requests")
"""What earlier releases import, and the newest one may not bring."""
Outcomes = dict[str, list[str]]
"""By stream: the patterns of stops after which it read other rows, or failed."""

HEAD = """# Streams after a resume

```sh
.venv/bin/python -m benchmarks.stream_resumes
```

This command wrote this page on {date}. It resumes {streams} kinds of streams of `datasets` at
{stops} patterns of stops, with {releases} releases since {since}.

**{summary}** It counts the rows that it has read. After
a resume it reads the stream from its first row again, drops the rows before the stop, and goes on.
It does not use the `state_dict` of the stream. So the extra `trainers` accepts every
release of `datasets` from 3.2 on.

- Reading again takes as long as the first reading did, `map` and download included. Each process
  and each worker reads again. If 100,000 rows or more are read again, a line in the log
  `pike_mixing` says so. To resume at once, use a map-style data set (`load_dataset` without
  `streaming=True`).
- Resume with the release of `datasets` that the training began with. The order of rows differs
  between releases: of shuffled streams, and of shards from the second epoch on. A state names its
  release, and another one is refused.
- Give `shuffle` of a stream a `seed`. Without a seed, a new process reads another order.
- A function of `map` that draws random numbers gives other rows when it runs again.

"""
RIGHT = "`MixedDataset` resumes all of them at the right row."
WRONG = "`MixedDataset` resumes {count} of them at a wrong row."
BY_RELEASE = """## By release

Resumes that read other rows or end in an error, of {cases}. Streams that a release cannot read
twice without a stop do not count.

"""
BY_STREAM = """
## By stream

At how many of the {stops} patterns of stops the stream's own `state_dict` is wrong. Releases with
the same results share a column. An empty cell means none. `-`: these releases do not have the
method, or cannot read the stream twice without a stop.

"""
BY_STOPS = """
## By stops

"80, 40" saves after 80 rows, resumes, saves after 40 more rows and resumes again. An epoch is one
pass over the stream. The numbers are the streams, of {streams}, that their own `state_dict` resumes
at a wrong row.

"""


def library() -> Any:
    """`datasets`, imported when it is needed: another release in each process."""
    import datasets

    return datasets


def base(rows: int = ROWS, shards: int = 2, first: int = 0) -> Any:
    """A new stream of rows with an `id`, the first of which is given."""
    return copy_if_stateful(_base(rows, shards, first))


@functools.cache
def _base(rows: int, shards: int, first: int) -> Any:
    columns = {"id": list(range(first, first + rows)), "other": [0] * rows}
    return library().Dataset.from_dict(columns).to_iterable_dataset(num_shards=shards)


def generated() -> Any:
    def rows(starts: list[int]) -> Iterator[dict[str, int]]:
        for start in starts:
            yield from ({"id": start + n} for n in range(ROWS // 3))

    starts = [number * ROWS // 3 for number in range(3)]
    return library().IterableDataset.from_generator(rows, gen_kwargs={"starts": starts})


def double(row: dict[str, Any]) -> dict[str, Any]:
    return {"double": 2 * row["id"]}


def doubles(rows: dict[str, Any]) -> dict[str, Any]:
    return {"double": [2 * n for n in rows["id"]]}


def batched(stream: Any, function: Callable[..., Any] = doubles, **options: Any) -> Any:
    return stream.map(function, batched=True, batch_size=7, **options)


def twice(rows: dict[str, Any]) -> dict[str, Any]:
    return {"id": [n for n in rows["id"] for _ in range(2)]}


class Pack:
    """Packs ids in fives; what is left over waits for the next batch."""

    def __init__(self) -> None:
        self.rest: list[int] = []

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        ids = self.rest + list(rows["id"])
        whole = len(ids) // 5 * 5
        self.rest = ids[whole:]
        return {"id": [ids[at : at + 5] for at in range(0, whole, 5)]}


def is_kept(row: dict[str, Any]) -> bool:
    return bool(row["id"] % 3)


def two(change: Callable[[Any], Any] = lambda stream: stream) -> list[Any]:
    return [change(base()), change(base(100, 1, 1000))]


def mapped(stream: Any) -> Any:
    return stream.map(double)


STREAMS: dict[str, Callable[[], Any]] = {
    "as it is": base,
    "one shard of 1,200 rows": lambda: base(1200, 1),
    "`from_generator`, 3 shards": generated,
    "`from_generator`, `map`": lambda: mapped(generated()),
    "`map`": lambda: mapped(base()),
    "`map`, one shard of 1,200 rows": lambda: mapped(base(1200, 1)),
    "batched `map`": lambda: batched(base()),
    "batched `map`, more rows": lambda: batched(base(), twice, remove_columns=["other"]),
    "batched `map` that keeps a rest": lambda: batched(base(), Pack(), remove_columns=["other"]),
    "`map`, batched `map`": lambda: batched(mapped(base())),
    "`filter`": lambda: base().filter(is_kept),
    "`map`, `filter`": lambda: mapped(base()).filter(is_kept),
    "`rename_columns`": lambda: base().rename_columns({"other": "another"}),
    "`select_columns`": lambda: base().select_columns(["id"]),
    "`remove_columns`": lambda: base().remove_columns(["other"]),
    "`cast_column`": lambda: base().cast_column("id", library().Value("int32")),
    "torch format": lambda: base().with_format("torch"),
    "`map`, torch format": lambda: mapped(base()).with_format("torch"),
    "torch format, batched `map`": lambda: batched(base().with_format("torch")),
    "`batch`": lambda: base().batch(3),
    "`map`, `batch`": lambda: mapped(base()).batch(3),
    "`take`": lambda: base().take(150),
    "`skip`": lambda: base().skip(30),
    "`map`, `take`": lambda: mapped(base()).take(150),
    "`skip`, `map`": lambda: mapped(base().skip(30)),
    "`shard`": lambda: base(shards=4).shard(2, 0),
    "`repeat`": lambda: base().repeat(2),
    "`reshard`": lambda: base().reshard(),
    "`interleave_datasets`": lambda: library().interleave_datasets(two()),
    "`interleave_datasets` by shares": lambda: library().interleave_datasets(
        two(), probabilities=[0.7, 0.3], seed=1, stopping_strategy="all_exhausted"
    ),
    "`map`, `interleave_datasets`": lambda: library().interleave_datasets(two(mapped)),
    "`concatenate_datasets`": lambda: library().concatenate_datasets(two()),
    "`map`, `concatenate_datasets`": lambda: library().concatenate_datasets(two(mapped)),
    "`concatenate_datasets` of columns": lambda: library().concatenate_datasets(
        [base().select_columns(["id"]), base().select_columns(["other"])], axis=1
    ),
    "`shuffle`": lambda: base().shuffle(seed=1, buffer_size=50),
    "`shuffle`, `map`": lambda: mapped(base().shuffle(seed=1, buffer_size=50)),
    "`map`, `shuffle`": lambda: mapped(base()).shuffle(seed=1, buffer_size=50),
}

STOPS: dict[str, Callable[[int], tuple[int, ...]]] = {
    "0": lambda _: (0,),
    "1, 1, 1": lambda _: (1, 1, 1),
    "80": lambda _: (80,),
    "80, 0": lambda _: (80, 0),
    "80, 40": lambda _: (80, 40),
    "0, 80, 40, 7": lambda _: (0, 80, 40, 7),
    "one before the end of an epoch, 3": lambda length: (length - 1, 3),
    "the end of an epoch": lambda length: (length,),
    "the end of an epoch, 5": lambda length: (length, 5),
    "10 after the end of an epoch, 20": lambda length: (length + 10, 20),
}
"""Rows that are read before each stop, of the rows of an epoch."""


def theirs(make: Callable[[], Any], stops: Sequence[int], further: int = FURTHER) -> list[str]:
    """Rows of a stream that stops, by its own state."""
    rows, state, epoch = list[str](), None, 0
    for count in (*stops, further):
        stream = make()
        stream.set_epoch(epoch)
        if state is not None:
            stream.load_state_dict(json.loads(state))
        reading, empty = iter(stream), 0
        while count:
            row = next(reading, None)
            if row is not None:
                rows.append(as_text(row))
                count, empty = count - 1, 0
                continue
            if (empty := empty + 1) > 2:
                raise RuntimeError("two epochs without a row")
            epoch += 1
            stream.set_epoch(epoch)
            reading = iter(stream)
        state = json.dumps(stream.state_dict())
    return rows


def ours(make: Callable[[], Any], stops: Sequence[int]) -> list[str]:
    """Rows of the mixed data set over the stream."""
    rows, state = list[str](), None
    for count in (*stops, FURTHER):
        mixed = MixedDataset({"a": make()}, 8)
        if state is not None:
            mixed.load_state_dict(json.loads(state))
        reading = iter(mixed)
        rows += [as_text(next(reading)) for _ in range(count)]
        state = json.dumps(mixed.state_dict())
    return rows


def as_text(row: Any) -> str:
    return json.dumps(row, default=lambda value: value.tolist(), sort_keys=True)


def outcomes(resumed: Callable[..., list[str]], names: Iterable[str] = STREAMS) -> Outcomes:
    """Where streams go on at a wrong row, but for those that the release itself cannot read."""
    result: Outcomes = {}
    for name in names:
        make = STREAMS[name]
        try:
            length = sum(1 for _ in make())
            stops = {pattern: counts(length) for pattern, counts in STOPS.items()}
            whole = theirs(make, (), max(map(sum, stops.values())) + FURTHER)
        except Exception as error:
            print(f"{name}: {error!r}", file=sys.stderr)
            continue
        result[name] = []
        for pattern, counts in stops.items():
            try:
                right = resumed(make, counts) == whole[: sum(counts) + FURTHER]
            except Exception:
                right = False
            result[name] += [] if right else [pattern]
    return result


def releases(since: str) -> list[str]:
    """Those on PyPI from one on, the oldest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", "datasets"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    listed = re.findall(
        r"\d+\.\d+\.\d+\b", text.partition("Available versions:")[2].splitlines()[0]
    )
    return sorted((v for v in listed if numbers(v) >= numbers(since)), key=numbers)


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def install(folder: Path, *packages: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "--target", str(folder), *packages], check=True)


def of_release(version: str, folder: Path, needed: Path) -> dict[str, Outcomes] | str:
    """Outcomes of both in a process that imports this release; the last line of its error."""
    install(folder, "--no-deps", f"datasets=={version}")
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "benchmarks.stream_resumes",
        "--installed",
        version,
    ]
    paths = os.pathsep.join(map(str, (folder, records.ROOT, needed)))
    environment = os.environ | {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    found: dict[str, Outcomes] = json.loads(done.stdout.splitlines()[-1])
    return found


def print_installed(version: str) -> None:
    """Prints the outcomes of the release that this process imports, as JSON."""
    if (imported := library().__version__) != version:
        raise SystemExit(f"datasets {imported} was imported, not {version}")
    print(json.dumps({"theirs": outcomes(theirs), "ours": outcomes(ours)}))


def count_wrong(of: Outcomes, name: str = "", pattern: str = "") -> int:
    """Wrong resumes, of all or of one stream or one pattern of stops."""
    chosen = [of[name]] if name else of.values()
    return sum(pattern in ("", wrong) for found in chosen for wrong in found)


def groups(tried: dict[str, dict[str, Outcomes]]) -> dict[str, list[str]]:
    """Releases in a row whose streams have the same outcomes, by a title."""
    result: list[list[str]] = []
    for version in tried:
        if result and tried[result[-1][-1]]["theirs"] == tried[version]["theirs"]:
            result[-1].append(version)
        else:
            result.append([version])
    return {f"{of[0]} to {of[-1]}" if of[1:] else of[0]: of for of in result}


def page(record: Mapping[str, Any]) -> str:
    """docs/streams.md of a record."""
    found = {
        version: record["releases"][version] for version in sorted(record["releases"], key=numbers)
    }
    tried = {version: of for version, of in found.items() if not isinstance(of, str)}
    grouped = {title: tried[of[0]]["theirs"] for title, of in groups(tried).items()}
    of_ours = sum(count_wrong(of["ours"]) for of in tried.values())
    text = HEAD.format(
        date=record["date"],
        streams=len(STREAMS),
        stops=len(STOPS),
        releases=len(found),
        since=next(iter(found)),
        summary=WRONG.format(count=of_ours) if of_ours else RIGHT,
    )

    def told(of: dict[str, Outcomes] | str) -> tuple[object, object]:
        if isinstance(of, str):
            return f"does not start: {of}", ""
        return count_wrong(of["theirs"]), count_wrong(of["ours"])

    titles = ("`datasets`", "wrong by the stream's own `state_dict`", "wrong by `MixedDataset`")
    rows = [(version, *told(of)) for version, of in found.items()]
    text += BY_RELEASE.format(cases=len(STREAMS) * len(STOPS)) + records.table(titles, rows) + "\n"

    def cells(name: str = "", pattern: str = "") -> list[object]:
        return [
            "-" if name and name not in of else count_wrong(of, name, pattern) or ""
            for of in grouped.values()
        ]

    text += BY_STREAM.format(stops=len(STOPS))
    text += records.table(("stream", *grouped), [(n, *cells(n)) for n in STREAMS]) + "\n"
    text += BY_STOPS.format(streams=len(STREAMS))
    return text + records.table(("stops", *grouped), [(p, *cells("", p)) for p in STOPS]) + "\n"


def main() -> None:
    if sys.argv[1:2] == ["--installed"]:
        print_installed(sys.argv[2])
        return
    chosen = measure.arguments(
        __doc__,
        "stream_resumes",
        releases={"nargs": "*", "default": []},
        since="3.2.0",
        page=PAGE,
    )
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        install(needed := Path(temporary) / "needed", *NEEDED)
        for version in chosen.releases or releases(chosen.since):
            of = found[version] = of_release(version, Path(temporary) / version, needed)
            told = of if isinstance(of, str) else {who: count_wrong(o) for who, o in of.items()}
            print(version, told, flush=True)
            measure.record(chosen, {"releases": found}, by_size=["releases"])
    record = json.loads(chosen.out.read_text(encoding="utf-8"))
    chosen.page.write_text(page(record), encoding="utf-8")


if __name__ == "__main__":
    main()
