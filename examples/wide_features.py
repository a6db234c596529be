"""A wide feature table: several jobs fill their own columns, models read some of them, by group.

    python examples/wide_features.py                  in process, a few seconds
    python examples/wide_features.py --rows 500000

Everything happens in a temporary folder.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

import lakebed

PROFILE = ["age", "country"]
WEB = [f"clicks_{day}d" for day in (1, 3, 7, 14, 30, 60, 90)] + ["visits", "seconds"]
PAYMENTS = [f"paid_{day}d" for day in (1, 7, 30, 90)] + ["refunds", "cards"]
SCORES = ["score", "band"]


@contextmanager
def step(title: str) -> Iterator[None]:
    """Print a step with the time that it took."""
    start = time.perf_counter()
    yield
    print(f"{title:<82} {(time.perf_counter() - start) * 1000:7.0f} ms")


def values(names: list[str], ids: np.ndarray, at: int) -> dict[str, np.ndarray]:
    """Make a value of each column for each customer."""
    return {name: (ids * (n + 3) + at) % 1000 / 10 for n, name in enumerate(names)}


def create(path: str) -> lakebed.Table:
    """Create the table: a default group for the profile, one group for each job."""
    numbers = ", ".join(f"{name} DOUBLE" for name in [*WEB, *PAYMENTS, "score"])
    return lakebed.create_table(
        None,
        path,
        f"customer BIGINT, updated_at BIGINT, age BIGINT, country STRING, {numbers}, band STRING,"
        " web_at BIGINT, payments_at BIGINT, scored_at BIGINT",
        key="customer",
        ordering="updated_at",
        buckets=4,
        column_groups={
            "web": {"columns": WEB, "ordering": "web_at"},
            "payments": {"columns": PAYMENTS, "ordering": "payments_at"},
            "scores": {"columns": SCORES, "ordering": "scored_at"},
        },
        # The jobs do not wait for each other.
        properties={"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"},
    )


def profiles(ids: np.ndarray) -> pa.Table:
    """Make the profile of each customer."""
    country = np.array(["NO", "PE", "IN", "UA"])[ids % 4]
    at = np.ones_like(ids)
    return pa.table({"customer": ids, "updated_at": at, "age": 18 + ids % 60, "country": country})


def features(group: str, names: list[str], ids: np.ndarray, at: int) -> pa.Table:
    """Make one job's columns for some customers, as of a time."""
    columns = {"customer": ids, f"{group}_at": np.full(len(ids), at)}
    return pa.table(columns | values(names, ids, at))


def scored(found: pa.Table, at: int) -> pa.Table:
    """Score customers by their features, as a model would."""
    score = np.nan_to_num(found["clicks_7d"].to_numpy()) + np.nan_to_num(
        found["paid_30d"].to_numpy()
    )
    band = np.where(score > 120, "high", np.where(score > 60, "middle", "low"))
    times = np.full(len(score), at)
    return pa.table(
        {"customer": found["customer"], "score": score, "band": band, "scored_at": times}
    )


def run(path: str, rows: int) -> None:
    """Fill the table by four jobs, read some columns, and look at the files."""
    ids = np.arange(rows)
    table = create(path)
    print(f"{len(table.schema.names)} columns in 4 groups, {rows:,} customers\n")
    jobs = {
        "profile": profiles(ids),
        "web": features("web", WEB, ids[ids % 10 != 0], at=1),  # a tenth never visited the site
        "payments": features("payments", PAYMENTS, ids[ids % 2 == 0], at=1),
    }
    with step("three jobs write their columns at the same time"), ThreadPoolExecutor() as pool:
        list(pool.map(lambda data: lakebed.open_table(path).upsert(data), jobs.values()))
    with step("the model reads 3 columns of 2 groups, and writes its scores") as _:
        found = table.to_arrow(columns=["customer", "clicks_7d", "paid_30d"])
        training = table.upsert(scored(found, at=2))
    with step("an hour later: clicks of one customer in twenty, one column of nine"):
        some = ids[ids % 20 == 1]
        fresh = {"customer": some, "web_at": np.full(len(some), 3), "clicks_1d": np.ones(len(some))}
        commit = table.update_columns(pa.table(fresh))
    print(f"  {commit}")
    with step("compact each group by itself"):
        done = table.compact()
    print(f"  {done[0]}\n")
    print(table.explain(["score"], where="band = 'high'"), "\n")
    with step("online: all columns of 3 customers by key"):
        rows_found = table.lookup([0, 1, rows - 1], ["customer", "country", "clicks_1d", "score"])
    for row in sorted(rows_found.to_pylist(), key=lambda row: row["customer"]):
        print(f"  {row}")
    with step("offline: the features as they were when the model was trained"):
        then = table.to_arrow(columns=["customer", "clicks_1d"], as_of=training.instant)
    print(f"  {then.num_rows:,} rows; customer 1 had clicks_1d = {value_of(then, 1)}")
    sizes = {}
    for file in table.files().to_pylist():
        group = file["column_group"] or "(default)"
        sizes[group] = sizes.get(group, 0) + file["size_bytes"]
    print("\nbytes by group:", ", ".join(f"{name} {size:,}" for name, size in sizes.items()))


def value_of(found: pa.Table, customer: int) -> object:
    """Return a customer's value of the second column."""
    return dict(zip(found["customer"].to_pylist(), found.column(1).to_pylist(), strict=True))[
        customer
    ]


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=50_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakebed-features-") as folder:
        run(f"{folder}/features", arguments.rows)


if __name__ == "__main__":
    main()
