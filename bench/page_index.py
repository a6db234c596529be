"""Find one key in a sorted run: by the sparse index at several densities, and by Parquet's page index.

    .venv/bin/python bench/page_index.py                  200,000 rows, in about a minute
    .venv/bin/python bench/page_index.py --rows 50000     a small try

Prints one JSON object. The same rows are written once for each size of row group and page (an entry of
the sparse index is a page), by Lakebed, and by pyarrow with the same encodings and a page index. Each
key is found by itself and its row is decoded, all 12 columns, by the same code. Bytes are those of
ranged reads, by readers that have parsed the footer and, without a page index, seen the page headers
of the row group; `cold_bytes` are those of a new reader's first key. A reader that keeps pages of
keys, as a table object does, is measured too.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from ledger import SCHEMA, ledger_rows
from lookup import percentiles

from lakebed.format.files.footer_layout import FooterLayout, parse_layout, read_footer_bytes
from lakebed.format.files.page_window import PageWindow, WindowColumn, encode_window
from lakebed.format.files.parquet_pages import PlacedPage, find_chunks
from lakebed.format.files.thrift import CompactReader
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.storage.local import LocalStorage
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.pages.paged_file import ParquetFooter
from lakebed.table.read.pages.sorted_keys import HeldColumns
from lakebed.table.read.parquet_source import ParquetSource
from lakebed.table.store.data_writer import DataFileWriter, NewDataFile

GROUPS = (4_096, 16_384, 65_536)
PAGES = (512, 1_024, 4_096)
KEYS = 200
COLD_KEYS = 20
COLUMNS = [RECORD_KEY, *SCHEMA.names]


class CountedInput:
    """A file whose ranged reads are counted."""

    def __init__(self, path: str) -> None:
        self.file = pa.OSFile(path, "rb")
        self.requests = self.size_bytes = 0

    def read_at(self, length: int, offset: int) -> bytes:
        """Read and count."""
        self.requests += 1
        self.size_bytes += length
        return self.file.read_at(length, offset)

    def read(self, length: int) -> bytes:
        """Read from the position and count, for pyarrow's reader of footers."""
        data = self.file.read(length)
        self.requests += 1
        self.size_bytes += len(data)
        return data

    def __getattr__(self, name: str) -> object:
        return getattr(self.file, name)


def sorted_rows(rows: int) -> tuple[pa.Table, pa.Array]:
    """Return the ledger in the order of its keys, and the keys."""
    table = ledger_rows(np.arange(rows), rows)
    texts = (pa.compute.cast(table[name], pa.string()) for name in ("user_id", "id"))
    keys = pa.compute.binary_join_element_wise("user_id:", next(texts), ",id:", next(texts), "")
    order = pa.compute.sort_indices(keys)
    return table.take(order).combine_chunks(), keys.take(order).combine_chunks()


def write_ours(path: pathlib.Path, table: pa.Table, keys: pa.Array, group: int, page: int) -> float:
    """Write the rows as Lakebed does; return the seconds of CPU."""
    storage = LocalStorage(str(path.parent))
    start = time.process_time()
    file = NewDataFile(
        path.name, SCHEMA, "t", "20260101000000000", row_group_rows=group, page_rows=page
    )
    writer = DataFileWriter(storage.open_write(path.name), file)
    at = 0
    for batch in table.to_batches(max_chunksize=16_384):
        writer.write(batch, keys.slice(at, batch.num_rows))
        at += batch.num_rows
    writer.close()
    return time.process_time() - start


def write_indexed(path: pathlib.Path, ours: pathlib.Path, page: int) -> None:
    """Write the rows of our file again with the same encodings, and a page index."""
    of = pq.ParquetFile(ours)
    chunks = [of.metadata.row_group(0).column(n) for n in range(of.metadata.num_columns)]
    with pq.ParquetWriter(
        path,
        of.schema_arrow,
        compression="zstd",
        compression_level=1,
        use_dictionary=[c.path_in_schema for c in chunks if "RLE_DICTIONARY" in c.encodings],
        column_encoding={
            c.path_in_schema: "DELTA_BYTE_ARRAY"
            for c in chunks
            if "DELTA_BYTE_ARRAY" in c.encodings
        },
        write_page_checksum=True,
        write_page_index=True,
        max_rows_per_page=page,
        write_batch_size=min(page, 1_024),
        store_schema=False,
    ) as writer:
        for number in range(of.num_row_groups):
            group = of.read_row_group(number)
            writer.write_table(group, row_group_size=group.num_rows)


class SparseIndex:
    """Lakebed's reader; without `keeps` it forgets the pages of keys after each lookup."""

    def __init__(self, path: pathlib.Path, *, keeps: bool) -> None:
        self.input = CountedInput(str(path))
        self._keeps = keeps
        self._footer = self._open(None).footer
        if keeps:
            self._footer = dataclasses.replace(self._footer, columns=HeldColumns(64 << 20))

    def _open(self, footer: ParquetFooter | None) -> ParquetSource:
        return ParquetSource("file", self.input, remote=False, forget=None, footer=footer)

    def find(self, key: str) -> pa.Table:
        """Return the row of a key."""
        source = self._open(self._footer)
        spans = KeyFilter.of(keys=[key]).spans(source, "file")
        return pa.Table.from_batches(source.read_spans(COLUMNS, spans or ()))


class PageIndex:
    """A reader of Parquet's page index, which decodes pages as Lakebed does."""

    def __init__(self, path: pathlib.Path) -> None:
        self.input = CountedInput(str(path))
        self._layout: FooterLayout = parse_layout(
            read_footer_bytes(self._read_at, self.input.size(), "file"), "file"
        )
        groups = CompactReader(self._layout.footer).struct()[4]
        self._groups = [group[1] for group in groups]
        self._firsts: list[bytes] = []
        names = list(self._layout.columns)
        self._numbers = [names.index(name) for name in COLUMNS]
        for group in self._groups:
            held = group[self._numbers[0]][3]
            self._firsts.append(held[12].get(6, held[12].get(2)))

    def _read_at(self, offset: int, length: int) -> bytes:
        return self.input.read_at(length, offset)

    def find(self, key: str) -> pa.Table:
        """Return the row of a key."""
        wanted = key.encode()
        group = max(0, bisect_right(self._firsts, wanted) - 1)
        chunks = [self._groups[group][number] for number in self._numbers]
        bounds = CompactReader(self._read_at(chunks[0][6], chunks[0][7])).struct()
        page = max(0, bisect_right(bounds[2], wanted) - 1)
        # The offset indexes of a row group lie side by side.
        start = min(chunk[4] for chunk in chunks)
        end = max(chunk[4] + chunk[5] for chunk in chunks)
        indexes = self._read_at(start, end - start)
        columns, first, stop = [], 0, 0
        described = find_chunks(self._layout, group, COLUMNS)
        for chunk, of, name in zip(chunks, described, COLUMNS, strict=True):
            at = chunk[4] - start
            places = CompactReader(indexes[at : at + chunk[5]]).struct()[1]
            first = places[page].get(3, 0)
            stop = places[page + 1][3] if page + 1 < len(places) else of.values
            leaf = self._layout.flat(name)
            assert leaf is not None
            head = places[0][1] - of.offset
            dictionary = PlacedPage(of.offset, head, 0, True) if head else None
            data = PlacedPage(places[page][1], places[page][2], stop - first, False)
            columns.append(WindowColumn(of, self._layout.element(leaf), dictionary, data))
        window = PageWindow(first, stop, tuple(columns))
        pages = [self._read_at(p.offset, p.length) for c in columns for p in c.placed]
        file = pq.ParquetFile(pa.BufferReader(encode_window(window, pages)))
        rows = file.read(COLUMNS, use_threads=False)
        return rows.filter(pa.compute.equal(rows[RECORD_KEY], key))


def measure(find: Callable[[str], pa.Table], source: CountedInput, keys: list[str]) -> dict:
    """Find each key by itself."""
    wall, cpu, sizes, requests = [], [], [], []
    for key in keys:
        before = source.size_bytes, source.requests
        start, begun = time.perf_counter(), time.process_time()
        found = find(key)
        cpu.append(1000 * (time.process_time() - begun))
        wall.append(1000 * (time.perf_counter() - start))
        if found[RECORD_KEY].to_pylist() != [key]:
            raise SystemExit(f"{key}: found {found.num_rows} rows")
        sizes.append(source.size_bytes - before[0])
        requests.append(source.requests - before[1])
    return {
        "ms": percentiles(wall),
        "cpu_ms": percentiles(cpu),
        "bytes": statistics.median(sizes),
        "requests": statistics.median(requests),
    }


def scan_seconds(path: pathlib.Path) -> float:
    """Return the CPU seconds of reading all columns."""
    start = time.process_time()
    for _ in pq.ParquetFile(path).iter_batches(16_384, columns=COLUMNS, use_threads=False):
        pass
    return time.process_time() - start


def compare(scratch: pathlib.Path, rows: int) -> list[dict]:
    """Write and measure every variant."""
    table, texts = sorted_rows(rows)
    keys = [texts[int(n)].as_py() for n in np.random.default_rng(5).integers(0, rows, KEYS)]
    found = []
    for group in GROUPS:
        for page in PAGES:
            if page >= group:
                continue
            ours, indexed = scratch / "ours.parquet", scratch / "indexed.parquet"
            cpu = write_ours(ours, table, texts, group, page)
            write_indexed(indexed, ours, page)
            variant = {"group_rows": group, "page_rows": page, "write_cpu": round(cpu, 2)}
            for name, path, make in (
                ("sparse", ours, lambda: SparseIndex(ours, keeps=False)),  # noqa: B023
                ("kept", ours, lambda: SparseIndex(ours, keeps=True)),  # noqa: B023
                ("page_index", indexed, lambda: PageIndex(indexed)),  # noqa: B023
            ):
                cold = []
                for key in keys[:COLD_KEYS]:
                    reader = make()
                    reader.find(key)
                    cold.append(reader.input.size_bytes)
                measure(reader.find, reader.input, keys)
                variant[name] = measure(reader.find, reader.input, keys) | {
                    "cold_bytes": statistics.median(cold),
                    "file_bytes": path.stat().st_size,
                }
            variant["scan_cpu"] = round(min(scan_seconds(ours) for _ in range(3)), 3)
            found.append(variant)
    return found


def main() -> None:
    """Do what the options say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakebed-bench-") as name:
        variants = compare(pathlib.Path(name), args.rows)
    print(json.dumps({"rows": args.rows, "keys": KEYS, "variants": variants}))


if __name__ == "__main__":
    main()
