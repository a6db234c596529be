"""Time the merge of sorted keys alone against pyarrow's concat, sort and dedupe.

    .venv/bin/python bench/kernel.py --rows 3000000

Prints one JSON object. Keys are `user_id:…,id:…`, about 15 ids a user, dealt to 2 and to 9 sorted
runs at random. Both sides give the row numbers to take for one row per key, the newest. Ours
counts everything that a window costs: finding its end, joining the keys, the tree, the last of
each key. The runs are in memory and the kernel is compiled before the clock starts.
"""

import argparse
import json
import time
from bisect import bisect_right

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.merge.arrays import key_bytes
from lakebed.merge.tree import Keys, order_keys

BATCH_ROWS = 16 << 10


def make_runs(rows: int, count: int, repeated: float, seed: int) -> list[pa.StringArray]:
    """Deal distinct keys to `count` runs at random, and a share of them to a second run too."""
    rng = np.random.default_rng(seed)
    distinct = int(rows / (1 + repeated))
    users = pa.array(rng.integers(10**6, 10**6 + distinct // 15, distinct)).cast(pa.string())
    ids = pa.array(rng.permutation(distinct) + 10**8).cast(pa.string())
    keys = pc.binary_join_element_wise("user_id:", users, ",id:", ids, "")
    keys = keys.take(pc.sort_indices(keys))
    owner = rng.integers(0, count, distinct)
    again = np.where(rng.random(distinct) < repeated, (owner + 1) % count, -1)
    return [
        keys.take(pa.array(np.flatnonzero((owner == run) | (again == run)))) for run in range(count)
    ]


def merge_windows(runs: list[pa.StringArray]) -> int:
    """Order and dedupe the keys of all runs, window by window; give the number of keys."""
    batches = [
        [
            Keys(*key_bytes(run.slice(at, BATCH_ROWS), "run"))
            for at in range(0, len(run), BATCH_ROWS)
        ]
        for run in runs
    ]
    places = [[0, 0] for _ in runs]
    kept = 0
    while True:
        current = [
            (held[place[0]], place)
            for held, place in zip(batches, places, strict=True)
            if place[0] < len(held)
        ]
        if not current:
            return kept
        bound = min(keys.key(len(keys) - 1) for keys, _ in current)
        window = []
        for keys, place in current:
            first = place[1]
            end = bisect_right(range(len(keys)), bound, lo=first, key=keys.key)
            if end > first:
                window.append([keys.part(first, end)])
            place[1] = end
            if end == len(keys):
                place[:] = [place[0] + 1, 0]
        order = order_keys(window, kernel=True)
        assert order.descends < 0
        newest = order.positions[np.append(order.starts[1:], True)]
        kept += len(newest)


def sort_whole(runs: list[pa.StringArray]) -> int:
    """Do the same with pyarrow: concat, stable sort, last of each key."""
    keys = pa.concat_arrays(runs)
    order = pc.sort_indices(keys)
    ordered = keys.take(order)
    last = pc.not_equal(ordered.slice(0, len(ordered) - 1), ordered.slice(1))
    newest = order.filter(pa.concat_arrays([last, pa.array([True])]))
    return len(newest)


def best(work, runs: list[pa.StringArray], times: int) -> tuple[float, int]:
    """Give the least seconds of `times` calls, and what they gave."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        found = work(runs)
        seconds.append(time.perf_counter() - start)
    return min(seconds), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--repeated", type=float, default=0.05, help="share of keys in two runs")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    report = {"rows": options.rows, "repeated": options.repeated, "batch_rows": BATCH_ROWS}
    for count in (2, 9):
        runs = make_runs(options.rows, count, options.repeated, options.seed)
        merge_windows([run.slice(0, 100) for run in runs])
        ours, kept = best(merge_windows, runs, options.times)
        arrow, wanted = best(sort_whole, runs, options.times)
        assert kept == wanted
        report[f"{count}_runs"] = {
            "lakebed_seconds": round(ours, 4),
            "pyarrow_seconds": round(arrow, 4),
            "million_rows_a_second": round(sum(map(len, runs)) / ours / 1e6, 1),
            "ratio": round(arrow / ours, 2),
        }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
