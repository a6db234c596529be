"""Time Avro records to columns and back against fastavro, record by record.

    .venv/bin/python bench/avro.py --rows 200000

Prints one JSON object. A block has the five meta columns and thirteen more: a key `user_id:…,id:…`,
four texts, two longs, two doubles, a boolean, a date, a timestamp and a decimal. The other side
calls fastavro's schemaless reader or writer for each record and makes an Arrow table of the dicts, or
dicts of the table. Both begin and end with the same bytes and the same columns. The kernel is compiled before
the clock starts.
"""

import argparse
import io
import json
import struct
import time

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.avro.avro_rows.block import encode_head, read_avro_block
from lakebed.format.avro.avro_rows.encode import encode_records
from lakebed.format.avro.avro_schema import arrow_to_avro, avro_to_arrow, with_meta_fields


def make_rows(rows: int, seed: int) -> tuple[pa.RecordBatch, str]:
    """Give a batch of so many rows and its schema as Hudi writes it."""
    rng = np.random.default_rng(seed)

    def words(size: int) -> pa.Array:
        letters = rng.integers(97, 123, rows * size, dtype=np.uint8)
        offsets = np.arange(0, rows * size + 1, size, dtype=np.int32)
        return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))

    users = pa.array(rng.integers(10**6, 2 * 10**6, rows)).cast(pa.string())
    ids = pa.array(rng.permutation(rows) + 10**8).cast(pa.string())
    keys = pc.binary_join_element_wise("user_id:", users, ",id:", ids, "")
    instant = pa.array(["20240418173551906"] * rows)
    names = {
        "key": keys,
        "name": words(12),
        "city": words(8),
        "state": words(2),
        "note": words(30),
        "amount": pa.array(rng.integers(0, 10**6, rows)),
        "version": pa.array(rng.integers(0, 2**60, rows)),
        "price": pa.array(rng.random(rows)),
        "ratio": pa.array(rng.random(rows), mask=rng.random(rows) < 0.1),
        "active": pa.array(rng.random(rows) < 0.5),
        "day": pa.array(rng.integers(0, 20_000, rows).astype(np.int32)).cast(pa.date32()),
        "ts": pa.array(rng.integers(0, 2 * 10**15, rows)).cast(pa.timestamp("us", "UTC")),
        "total": pa.array(rng.integers(0, 10**9, rows))
        .cast(pa.decimal128(19))
        .cast(pa.decimal128(21, 2))
        .cast(pa.decimal128(12, 2)),
    }
    meta = {
        "_hoodie_commit_time": instant,
        "_hoodie_commit_seqno": pc.binary_join_element_wise(instant, "0", ids, "_"),
        "_hoodie_record_key": keys,
        "_hoodie_partition_path": pa.array([""] * rows),
        "_hoodie_file_name": pa.array(["00000001-5d1c-4f1a-9b7e-0123456789ab-0"] * rows),
    }
    text = arrow_to_avro(pa.schema([(name, column.type) for name, column in names.items()]), "t")
    text = with_meta_fields(text)
    columns = meta | names
    schema = avro_to_arrow(text)
    return pa.RecordBatch.from_arrays([columns[f.name] for f in schema], schema=schema), text


def decode_ours(content: bytes, text: str) -> pa.Table:
    return pa.Table.from_batches(
        read_avro_block(
            lambda at, length: content[at : at + length], len(content), text, None, what="bench"
        )
    )


def decode_fastavro(content: bytes, text: str) -> pa.Table:
    schema = fastavro.parse_schema(json.loads(text))
    (count,) = struct.unpack_from(">i", content, 4)
    at = 8
    rows = []
    for _ in range(count):
        (length,) = struct.unpack_from(">i", content, at)
        at += 4 + length
        rows.append(fastavro.schemaless_reader(io.BytesIO(content[at - length : at]), schema, None))
    return pa.Table.from_pylist(rows, schema=avro_to_arrow(text))


def encode_fastavro(batch: pa.RecordBatch, text: str) -> bytes:
    schema = fastavro.parse_schema(json.loads(text))
    parts = []
    for row in batch.to_pylist():
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        parts += [struct.pack(">i", out.tell()), out.getvalue()]
    return b"".join(parts)


def best(work, times: int, *arguments):
    """Give the least seconds of `times` calls, and what they gave."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        found = work(*arguments)
        seconds.append(time.perf_counter() - start)
    return min(seconds), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    batch, text = make_rows(options.rows, options.seed)
    small = encode_records(batch.slice(0, 10), text).to_pybytes()
    decode_ours(encode_head(10) + small, text)
    encode, records = best(encode_records, options.times, batch, text)
    slow_encode, wanted = best(encode_fastavro, 1, batch, text)
    assert records.to_pybytes() == wanted
    content = encode_head(options.rows) + wanted
    decode, table = best(decode_ours, options.times, content, text)
    slow_decode, rows = best(decode_fastavro, 1, content, text)
    assert table.equals(rows)
    assert table.equals(pa.Table.from_batches([batch]))
    report = {"rows": options.rows, "content_bytes": len(content)}
    for name, ours, theirs in (("decode", decode, slow_decode), ("encode", encode, slow_encode)):
        report[name] = {
            "lakebed_seconds": round(ours, 4),
            "fastavro_seconds": round(theirs, 4),
            "million_rows_a_second": round(options.rows / ours / 1e6, 2),
            "ratio": round(theirs / ours, 1),
        }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
