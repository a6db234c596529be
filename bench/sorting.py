"""Time other ways in which pyarrow can merge sorted keys, beside the one of bench/kernel.py.

    .venv/bin/python bench/sorting.py --rows 3000000

Prints one JSON object: seconds by number of runs. All give the number of keys that are left.
`tables` has the run and the row of each key as columns, sorts a table by key and run and groups by key;
`unsorted` sorts the same keys when they do not come in sorted runs, which spares a sort most of its work.
"""

import argparse
import json

import numpy as np
import pyarrow as pa
from kernel import best, make_runs, merge_windows, sort_whole


def sort_tables(runs: list[pa.StringArray]) -> int:
    """Concat tables, sort by key and run, take the last of each group."""
    parts = [
        pa.table(
            {
                "key": keys,
                "run": pa.array(np.full(len(keys), number, np.int32)),
                "row": pa.array(np.arange(len(keys))),
            }
        )
        for number, keys in enumerate(runs)
    ]
    rows = pa.concat_tables(parts).sort_by([("key", "ascending"), ("run", "ascending")])
    newest = rows.group_by("key", use_threads=False)
    return newest.aggregate([("run", "last"), ("row", "last")]).num_rows


def main() -> None:
    """Time each way for 2 and for 9 runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--times", type=int, default=2)
    args = parser.parse_args()
    answer = {}
    for count in (2, 9):
        runs = make_runs(args.rows, count, 0.05, 1)
        keys = pa.concat_arrays(runs)
        shuffled = keys.take(pa.array(np.random.default_rng(1).permutation(len(keys))))
        merge_windows([run.slice(0, 100) for run in runs])
        ours, kept = best(merge_windows, runs, args.times + 2)
        tables, of_tables = best(sort_tables, runs, args.times)
        unsorted, of_unsorted = best(sort_whole, [shuffled], args.times)
        assert kept == of_tables == of_unsorted
        answer[f"{count}_runs"] = {
            "lakebed_seconds": round(ours, 4),
            "tables_seconds": round(tables, 4),
            "unsorted_seconds": round(unsorted, 4),
        }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
