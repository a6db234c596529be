"""Time compaction of a table with uncompacted upserts, and the floor: its files decoded and encoded.

    .venv/bin/python bench/compaction.py TABLE --runs 3

Prints one JSON object. Every run works on a fresh copy of TABLE (made by bench/lakebed_peer.py
--keep). The floor is what pyarrow alone takes on as many threads, batch by batch, with the writer's
own settings: `all` encodes every row that was decoded, `kept` only as many as the compaction keeps.
"""

import argparse
import json
import os
import pathlib
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

import lakebed
from lakebed.format.names.meta_columns import META_COLUMNS, RECORD_KEY
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.store.run_writer import _repeating_leaves

BATCH_ROWS = 16 << 10
KEY_COLUMNS = (RECORD_KEY, "_hoodie_commit_seqno")


def copied(table: pathlib.Path, scratch: str) -> str:
    """Copy a table and give its place, with the copy in the page cache as the original is."""
    place = os.path.join(scratch, "copy")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(table, place)
    return place


def compacted(spark, table: pathlib.Path, scratch: str, mode: str) -> tuple[float, object]:
    """Compact a copy; give the seconds, opening and planning included, and what was done."""
    place = copied(table, scratch)
    start = time.perf_counter()
    [done] = lakebed.open_table(spark, place).compact(mode=mode)
    return round(time.perf_counter() - start, 3), done


def floor(table: pathlib.Path, scratch: str, kept_rows: int | None) -> float:
    """Decode and encode the files of every file group without a merge; give the seconds."""
    opened = lakebed.open_table(None, str(table))
    snapshot = opened._snapshot(None)  # noqa: SLF001 - its files, not its rows
    slices = snapshot.slices
    share = None if kept_rows is None else kept_rows // len(slices)

    def rewrite(number: int) -> None:
        sources = slice_sources(snapshot.view(), slices[number])
        writer, left = None, share
        for source in sources:
            with pa.memory_map(str(table / source.path)) as file:
                length = file.size() - source.offset if source.length is None else source.length
                content = file.read_buffer(file.size()).slice(source.offset, length)
                with pq.ParquetFile(pa.BufferReader(content), pre_buffer=False) as parquet:
                    for batch in parquet.iter_batches(BATCH_ROWS):
                        if writer is None:
                            writer = open_writer(os.path.join(scratch, f"{number}"), batch)
                        if left is None or left > 0:
                            part = batch if left is None else batch.slice(0, left)
                            writer.write_batch(part.cast(writer.schema))
                            left = None if left is None else left - part.num_rows
        assert writer is not None
        writer.close()

    start = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(rewrite, range(len(slices))))
    return round(time.perf_counter() - start, 3)


def open_writer(path: str, first: pa.RecordBatch) -> pq.ParquetWriter:
    """Open a writer with the settings of our base files."""
    constant = [name for name in META_COLUMNS if name not in KEY_COLUMNS]
    repeating = _repeating_leaves(pa.Table.from_batches([first]))
    return pq.ParquetWriter(
        path,
        first.schema.remove_metadata(),
        compression="zstd",
        compression_level=1,
        use_dictionary=[*constant, *(name for name in repeating if name not in META_COLUMNS)],
        column_encoding=dict.fromkeys(KEY_COLUMNS, "DELTA_BYTE_ARRAY"),
        write_page_checksum=True,
        store_schema=False,
    )


def main() -> None:
    """Compact copies in turns with the floor."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    result = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="lakebed-bench-") as scratch:
        spark = lakebed.local_session(2, conf={"spark.driver.memory": "4g"})
        answer: dict[str, object] = {"engine": "lakebed"}
        times: dict[str, list[float]] = {n: [] for n in ("full", "log", "process", "all", "kept")}
        compacted(spark, args.table, scratch, "full")  # warms the workers up
        for _ in range(args.runs):
            taken, done = compacted(spark, args.table, scratch, "full")
            times["full"].append(taken)
            answer["rows"], answer["bytes"] = done.rows, done.size_bytes
            times["all"].append(floor(args.table, scratch, None))
            times["kept"].append(floor(args.table, scratch, done.rows))
            times["log"].append(compacted(spark, args.table, scratch, "log")[0])
            times["process"].append(compacted(None, args.table, scratch, "full")[0])
        spark.stop()
        print(json.dumps({**answer, **times}), file=result, flush=True)


if __name__ == "__main__":
    main()
