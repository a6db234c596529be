"""A lookup service over HTTP: rows of a table by key or by an indexed column, as JSON, without Spark.

    python examples/lookup_service.py                         a client asks the service, and prints what it answers
    python examples/lookup_service.py --serve --path PATH     serves the table at PATH until Ctrl+C

    GET /rows?id=17&id=18         rows by key
    GET /rows?rider=r00042        rows by a column with a secondary index
    GET /health                   the newest commit

Each request reads the newest commit. Threads share one `Table`.
"""

import argparse
import json
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qsl, urlsplit
from urllib.request import urlopen

import numpy as np
import pyarrow as pa

import lakebed

COLUMNS = "id BIGINT, rider STRING, city STRING, fare DOUBLE, ts BIGINT"
LIMIT = 1_000


def conditions(table: lakebed.Table, query: str) -> list[dict[str, Any]]:
    """Return what a query asks for: one dict for each value of its only parameter, typed as the column."""
    pairs = parse_qsl(query, keep_blank_values=True)
    names = {name for name, _ in pairs}
    if len(names) != 1 or not pairs or len(pairs) > LIMIT:
        raise lakebed.InvalidError(f"expected one column with 1 to {LIMIT} values, as ?id=1&id=2")
    (name,) = names
    if name not in table.schema.names:
        raise lakebed.InvalidError(f"no column {name!r} (the table has {table.schema.names})")
    try:
        values = pa.array([value for _, value in pairs]).cast(table.schema.field(name).type)
    except pa.ArrowInvalid as error:
        raise lakebed.InvalidError(f"column {name!r}: {error}") from error
    return [{name: value} for value in values.to_pylist()]


class Lookups(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"

    def __init__(self, table: lakebed.Table, *args: Any) -> None:
        self.table = table
        super().__init__(*args)

    def do_GET(self) -> None:
        """Answer a GET request; what went wrong decides the status."""
        url = urlsplit(self.path)
        try:
            if url.path == "/rows":
                rows = self.table.lookup(conditions(self.table, url.query)).to_pylist()
                self.answer(200, {"rows": rows})
            elif url.path == "/health":
                newest = self.table.history().to_pylist()[0]
                self.answer(200, {"instant": newest["instant"], "operation": newest["operation"]})
            else:
                self.answer(404, {"error": "the paths are /rows and /health"})
        except lakebed.InvalidError as error:
            self.answer(400, {"error": str(error)})
        except lakebed.UnavailableError as error:
            self.answer(503, {"error": str(error)})
        except lakebed.LakebedError as error:
            self.answer(500, {"error": str(error)})

    def answer(self, status: int, body: dict[str, Any]) -> None:
        """Send a status and a JSON body."""
        data = json.dumps(body, default=str).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        """Log nothing for each request."""


def serve(path: str, host: str, port: int) -> ThreadingHTTPServer:
    """Return a server for the table at `path`: one thread for each connection."""
    return ThreadingHTTPServer((host, port), partial(Lookups, lakebed.open_table(path)))


def trips(first: int, count: int, ts: int) -> pa.Table:
    """Make some trips: five of each rider, in an order unlike the key's."""
    ids = np.random.default_rng(first).permutation(np.arange(first, first + count))
    return pa.table(
        {
            "id": ids,
            "rider": np.char.add("r", np.char.zfill((ids // 5).astype(str), 5)),
            "city": np.array(["Oslo", "Lima", "Pune", "Kyiv"])[ids % 4],
            "fare": (ids * 37 % 10_000) / 100,
            "ts": np.full(count, ts),
        }
    )


def ask(address: str, path: str) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of an answer."""
    try:
        with urlopen(f"{address}{path}", timeout=30) as reply:
            return reply.status, json.load(reply)
    except HTTPError as error:
        return error.code, json.load(error)


def show(address: str, path: str) -> dict[str, Any]:
    """Ask, and print the question and the answer."""
    status, body = ask(address, path)
    text = json.dumps(body)
    print(f"GET {path}\n  {status} {text if len(text) < 200 else text[:197] + '...'}")
    return body


def try_it(folder: str, rows: int, requests: int) -> None:
    """Make a table, serve it, ask for rows while it is written, and measure."""
    path = f"{folder}/trips"
    table = lakebed.create_table(None, path, COLUMNS, key="id", ordering="ts", buckets=4)
    table.bulk_insert(trips(0, rows, ts=1))
    print(table.create_index("by_rider", ["rider"]))
    with serve(path, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        show(address, "/health")
        show(address, f"/rows?id=17&id={rows - 1}")
        show(address, "/rows?rider=r00042")
        show(address, "/rows?fare=1.0")  # no index: an error that says so
        show(address, "/rows?id=seven")
        table.upsert(trips(17, 1, ts=2).set_column(3, "fare", pa.array([99.99])))
        fare = show(address, "/rows?id=17")["rows"][0]["fare"]
        print(f"  the upsert is seen at once: fare {fare}")
        ids = np.random.default_rng(1).integers(0, rows, requests)
        took: list[float] = []

        def timed(id_: int) -> int:
            start = time.perf_counter()
            _, body = ask(address, f"/rows?id={id_}")
            took.append(time.perf_counter() - start)
            return len(body["rows"])

        with ThreadPoolExecutor(4) as clients:
            found = sum(clients.map(timed, ids.tolist()))
        middle, slow = np.percentile(took, [50, 99]) * 1000
        print(
            f"{requests} requests by 4 clients: {found} rows; median {middle:.1f} ms, 99 % below {slow:.0f} ms"
        )
        server.shutdown()


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--serve", action="store_true", help="serve until Ctrl+C")
    parser.add_argument("--path", help="the table to serve")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8781)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=400)
    arguments = parser.parse_args()
    if not arguments.serve:
        with tempfile.TemporaryDirectory(prefix="lakebed-lookups-") as folder:
            try_it(folder, arguments.rows, arguments.requests)
        return
    if not arguments.path:
        parser.error("--serve needs --path")
    with serve(arguments.path, arguments.host, arguments.port) as server:
        print(f"http://{arguments.host}:{server.server_address[1]}/rows?...   (Ctrl+C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("ended")


if __name__ == "__main__":
    main()
