"""Served tables: a warehouse with a partitioned table and one with column groups."""

import threading

import pyarrow as pa
import pytest

import lakebed
from lakebed.ui.server import PageServer
from lakebed.ui.site import Site

HOSTILE = "<script>alert('x')</script>"


def rows(*numbers, ts=1, note="plain"):
    return pa.table(
        {
            "id": [f"k{n:03}" for n in numbers],
            "select": list(numbers),
            "note": [note] * len(numbers),
            "ts": pa.array([ts] * len(numbers), pa.int64()),
            "dt": [f"a&b {n % 2}" for n in numbers],
        }
    )


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    """A folder with the tables `trips` and `ml/features`, and a folder that is no table."""
    folder = tmp_path_factory.mktemp("warehouse")
    (folder / "notes").mkdir()
    trips = lakebed.create_table(
        None, folder / "trips", rows(1), key="id", ordering="ts", partition_by="dt", buckets=1
    )
    trips.create_index("by_note", ["note"])
    trips.bulk_insert(rows(*range(40)))
    trips.upsert(rows(*range(0, 40, 3), ts=2, note=HOSTILE))
    trips.delete([{"id": "k001"}])
    trips.upsert(rows(40, 41, ts=3).append_column("later", pa.array([1.5, None])), evolve=True)
    grouped = lakebed.create_table(
        None, folder / "ml" / "features", "id BIGINT, ts BIGINT, score DOUBLE",
        key="id", ordering="ts", buckets=1, column_groups={"risk": ["score"]},
    )  # fmt: skip
    grouped.bulk_insert(pa.table({"id": [1, 2], "ts": [1, 1], "score": [0.5, 0.6]}))
    return folder


@pytest.fixture(scope="module")
def served():
    """Return a function that serves a path and returns the server."""
    servers = []

    def serve(path, host="127.0.0.1"):
        server = PageServer(Site(str(path)), host, 0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()
