"""Generate the loan ledger of the benchmarks: Parquet files, the same bytes of data for the same arguments.

    python bench/ledger.py OUT --rows 2000000 --files 8

Twelve columns; the key is (user_id, id). A user has about 15 rows, `id` counts over the whole
ledger, and rows come in the order of a shuffle, as transactions arrive: never sorted by key.
Memory is bounded by one file's rows, since the shuffle is a permutation that is computed, not stored.
"""

import argparse
import itertools
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROWS_PER_USER = 15
FIRST_MS = 1_704_067_200_000  # 2024-01-01 UTC
YEAR_MS = 366 * 24 * 3600 * 1000

STATUSES = ["pending", "posted", "settled", "reversed", "overdue", "written_off"]
KINDS = ["disbursement", "repayment", "interest", "fee", "adjustment"]
CURRENCIES = ["EUR", "USD", "GBP", "CNY"]
NOTES = ["standing order", "paid at branch", "late by a week", "second reminder sent", "by phone"]

SCHEMA = pa.schema(
    [
        ("user_id", pa.int64()),
        ("id", pa.int64()),
        ("ts", pa.int64()),
        ("loan_id", pa.int64()),
        ("kind", pa.string()),
        ("status", pa.string()),
        ("currency", pa.string()),
        ("amount", pa.decimal128(18, 2)),
        ("balance", pa.float64()),
        ("rate", pa.float64()),
        ("due", pa.date32()),
        ("note", pa.string()),
    ]
)


def shuffled(numbers: np.ndarray, rows: int, seed: int) -> np.ndarray:
    """Permute 0..rows-1: the `numbers` of a dense range give rows far apart.

    A Feistel network over the next even power of two, walked until the result is in range
    (cycle walking), is a bijection that needs no table of `rows` entries.
    """
    half_bits = (max(rows - 1, 1).bit_length() + 1) // 2
    mask = np.uint64((1 << half_bits) - 1)
    keys = np.random.default_rng(seed).integers(1, 2**63, 4, dtype=np.uint64) | np.uint64(1)

    def once(values: np.ndarray) -> np.ndarray:
        left, right = values >> np.uint64(half_bits), values & mask
        for key in keys:
            mixed = (right + key) * key
            mixed ^= mixed >> np.uint64(29)
            left, right = right, (left ^ mixed) & mask
        return (left << np.uint64(half_bits)) | right

    out = once(numbers.astype(np.uint64))
    while (outside := out >= np.uint64(rows)).any():
        out[outside] = once(out[outside])
    return out.astype(np.int64)


def hashed(row: np.ndarray, salt: int) -> np.ndarray:
    """Give 63 well mixed bits for each row number: every value is a function of its row alone."""
    x = row.astype(np.uint64) + np.uint64((salt * 0x9E3779B97F4A7C15) & (2**64 - 1))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


def choose(words: list[str], pick: np.ndarray) -> pa.Array:
    """Take one of `words` for each row."""
    return pa.array(words).take(pa.array(pick % len(words)))


def ledger_rows(row: np.ndarray, rows: int, seed: int = 0, version: int = 0) -> pa.Table:
    """Give the ledger's rows of these numbers; a later `version` of a row has a later ts and other amounts."""
    salt = 1000 * seed + 100_000 * version
    users = max(rows // ROWS_PER_USER, 1)
    cents = hashed(row, salt + 3) % 5_000_000
    user = hashed(row, 1000 * seed + 1) % users
    paid = pa.array(cents).cast(pa.decimal128(19, 0))
    columns = [
        pa.array(1_000_000 + user),
        pa.array(row),
        pa.array(FIRST_MS + hashed(row, 1000 * seed + 2) % YEAR_MS + version * YEAR_MS),
        pa.array((1_000_000 + user) * 10 + hashed(row, salt + 4) % 3),
        choose(KINDS, hashed(row, salt + 5)),
        choose(STATUSES, hashed(row, salt + 6)),
        choose(CURRENCIES, user),
        pc.multiply(paid, pa.scalar("0.01").cast(pa.decimal128(2, 2))).cast(pa.decimal128(18, 2)),
        pa.array(hashed(row, salt + 7) % 10_000_000 / 100.0),
        pa.array((hashed(row, salt + 8) % 900 + 100) / 10_000.0),
        pa.array((19_723 + hashed(row, salt + 9) % 730).astype(np.int32)).cast(pa.date32()),
        pc.binary_join_element_wise(
            choose(NOTES, hashed(row, salt + 10)),
            pa.array(hashed(row, salt + 11) % 100_000).cast(pa.string()),
            " ref ",
        ),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def write_ledger(out: pathlib.Path, rows: int, files: int, seed: int = 0) -> list[pathlib.Path]:
    """Write the ledger as `files` Parquet files of nearly equal length under `out`."""
    out.mkdir(parents=True, exist_ok=True)
    bounds = np.linspace(0, rows, files + 1).astype(np.int64)
    paths = []
    for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
        order = shuffled(np.arange(start, stop), rows, seed)
        paths.append(out / f"ledger-{number:03d}.parquet")
        pq.write_table(ledger_rows(order, rows, seed), paths[-1], compression="zstd")
    return paths


def update_rows(rows: int, number: int, batch: int, seed: int = 0) -> pa.Table:
    """Give the rows of the upsert with this number (from 1): nine in ten of them change old rows.

    No row comes twice in it; two upserts share a row by chance, and the later has the later ts.
    """
    new = batch // 10
    old = shuffled(np.arange(batch - new), rows, seed + number)
    added = rows + (number - 1) * new + np.arange(new)
    order = shuffled(np.arange(batch), batch, seed)
    return ledger_rows(np.concatenate([old, added])[order], rows, seed, number)


def write_updates(out: pathlib.Path, rows: int, count: int, batch: int, seed: int = 0) -> None:
    """Write `count` upserts, a folder of two Parquet files each: `out`/1, `out`/2, ..."""
    for number in range(1, count + 1):
        folder = out / str(number)
        folder.mkdir(parents=True)
        changed = update_rows(rows, number, batch, seed)
        for half, start in enumerate((0, batch // 2)):
            part = changed.slice(start, batch // 2 if half == 0 else None)
            pq.write_table(part, folder / f"part-{half}.parquet", compression="zstd")


def keys_of(row: np.ndarray, rows: int, seed: int = 0) -> list[dict[str, int]]:
    """Give the keys of rows by number."""
    return ledger_rows(row, rows, seed).select(["user_id", "id"]).to_pylist()


def main() -> None:
    """Write a ledger by the command line's arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    paths = write_ledger(args.out, args.rows, args.files, args.seed)
    print(f"{args.rows} rows in {len(paths)} files, {sum(p.stat().st_size for p in paths)} bytes")


if __name__ == "__main__":
    main()
