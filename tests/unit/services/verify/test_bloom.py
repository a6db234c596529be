"""Verify checks the keys of a file against its Bloom filter."""

import base64
import io
import struct

import pyarrow.parquet as pq

from lakebed.format.index.bloom import FOOTER_BLOOM
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.services.verify.findings import Code
from lakebed.services.verify.verify import verify
from support.fixtures import files
from support.tables import copy_of


def base_files(name):
    for path, data in files(name).items():
        if path.endswith(".parquet") and not path.startswith(".hoodie/"):
            yield path, data


def test_verify_finds_keys_that_the_filter_of_their_file_does_not_hold():
    objects = dict(files("cow9_nonpart_bulk"))
    path, data = next(base_files("cow9_nonpart_bulk"))
    file = pq.ParquetFile(io.BytesIO(data))
    empty = struct.pack(">iibi", -1, 7, 1, 959) + bytes(120)
    marks = {**file.metadata.metadata, FOOTER_BLOOM.encode(): base64.b64encode(empty)}
    out = io.BytesIO()
    rows = file.read()
    with pq.ParquetWriter(out, rows.schema, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(marks)
    objects[path] = out.getvalue()
    report = verify(copy_of(objects), ManualClock(), LocalExecutor(1))
    [finding] = [f for f in report if f.code is Code.BLOOM_FILTER]
    assert finding.path == path
    assert "3 keys are not in the Bloom filter" in finding.message
