"""The board of `pike-mixing bench`: every method of the package on the frozen folds.

    python -m benchmarks.bench_board [--jobs 2] [--tables olmix-full.csv.gz olmix-dclm.csv.gz]

Record: pike_mixing/bench_board.json, which the package holds.
"""

import argparse
import json
import time
from pathlib import Path

from benchmarks import records
from pike_mixing import bench


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tables", nargs="+", type=Path, default=[])
    arguments = parser.parse_args()
    begun = time.monotonic()
    parts = bench.unsealed_folds(arguments.tables)
    methods = [bench.make_board_entry(name, parts, arguments.jobs) for name in bench.METHODS]
    minutes = (time.monotonic() - begun) / 60
    tables = ["regmix", *(one.name.partition(".")[0] for one in arguments.tables)]
    drawn = [{"tables": tables, "commit": records.commit(), "minutes": minutes}]
    board = {"drawn": drawn, "methods": methods}
    bench.BOARD.write_text(json.dumps(board) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
