"""Random histories of tables with secondary indexes, and random queries of their columns.

Values are drawn from small pools that hold what is hard to encode or compare, so that rows move
between values and back, and most queries match some rows.
"""

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.api.table import Table
from lakebed.errors import InvalidError, NotFoundError
from support.indexes import unindexed

NAN, INF = float("nan"), float("inf")
UTC = dt.UTC
LONG = "long " * 2_000
TEXTS = [
    None,
    "",
    "a",
    "ab",
    "abc",
    "a\x00b",
    "é",
    "雪",
    "\U0001f600",
    "￿",
    LONG,
    LONG + "x",
    "it's",
]
REALS = [None, 0.0, -0.0, NAN, INF, -INF, 1.5, -1.5, 1e308, 5e-324, 0.1]
SINGLES = [None, 0.0, -0.0, NAN, 1.5, -3.25, INF]
PRICES = [None, *map(Decimal, ("0", "0.001", "-0.001", "12.345", "-999999999.999", "7"))]
TIMES = [
    None,
    dt.datetime(1, 1, 1, tzinfo=UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    dt.datetime(2026, 3, 1, 12, tzinfo=UTC),
    dt.datetime(9999, 12, 31, tzinfo=UTC),
]
WALLS = [None if time is None else time.replace(tzinfo=None) for time in TIMES]
DAYS = [None, dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 3, 1), dt.date(9999, 12, 31)]
SMALL = [None, -(2**31), -1, 0, 1, 7, 2**31 - 1]
LARGE = [None, -(2**63), -1, 0, 1, 2**63 - 1]
PLACES = [None, {"zip": None}, {"zip": ""}, {"zip": "0150"}, {"zip": "é"}]

POOLS: dict[str, list[Any]] = {
    "text": TEXTS,
    "real": REALS,
    "single": SINGLES,
    "price": PRICES,
    "at": TIMES,
    "wall": WALLS,
    "day": DAYS,
    "small": SMALL,
    "large": LARGE,
    "flag": [None, False, True],
    "place": PLACES,
}
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("dt", pa.string()),
        ("ts", pa.int64()),
        ("text", pa.string()),
        ("real", pa.float64()),
        ("single", pa.float32()),
        ("price", pa.decimal128(12, 3)),
        ("at", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("day", pa.date32()),
        ("small", pa.int32()),
        ("large", pa.int64()),
        ("flag", pa.bool_()),
        ("place", pa.struct([("zip", pa.string())])),
    ]
)
DDL = (
    "id string, dt string, ts bigint, text string, real double, single float, price decimal(12,3), "
    "at timestamp, wall timestamp_ntz, day date, small int, large bigint, flag boolean, "
    "place struct<zip:string>"
)
INDEXES = [
    ["text"],
    ["real"],
    ["single"],
    ["price"],
    ["at"],
    ["wall"],
    ["day"],
    ["small", "text"],
    ["large"],
    ["flag", "real"],
    ["place.zip"],
    ["text", "price", "day"],
]
KEYS = [f"k{n}" for n in range(24)]
PARTITIONS = ["p", "ü"]


class Draw:
    """Draws rows, queries and operations from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.time = 0
        self.indexed: list[str] = []

    def of(self, choices: list[Any]) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def rows(self, count: int, columns: list[str] | None = None) -> pa.Table:
        """Return rows of `count` keys; some come late."""
        schema = SCHEMA if columns is None else pa.schema([SCHEMA.field(n) for n in columns])
        self.time += 1
        found = {}
        for _ in range(count):
            key, partition = self.of(KEYS), self.of(PARTITIONS)
            late = int(self.random.integers(0, 4))
            row = {"id": key, "dt": partition, "ts": self.time - late}
            row |= {name: self.of(pool) for name, pool in POOLS.items() if name in schema.names}
            found[key, partition] = row
        return pa.Table.from_pylist(list(found.values()), schema=schema)

    def query(self) -> str:
        """Return a predicate."""
        first = self._test()
        if self.chance(0.4):
            return first
        second = self._test()
        if self.chance(0.3):
            return f"({first} OR {second}) AND {self._test()}"
        word = self.of(["AND", "OR"])
        return f"{first} {word} {second}"

    def _test(self) -> str:
        name = self.of(self.indexed if self.indexed and self.chance(0.7) else list(POOLS))
        pool = [value for value in POOLS[name] if value is not None]
        if name == "place":
            name, pool = "place.zip", ["", "0150", "é", "nowhere"]
        one, other = literal(name, self.of(pool)), literal(name, self.of(pool))
        forms = [
            f"{name} = {one}",
            f"{name} = {one}",
            f"{name} <=> {one}",
            f"{name} IN ({one}, {other})",
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
            f"{name} <> {one}",
        ]
        if name == "flag":
            forms += ["flag", "NOT flag"]
        else:
            forms += [
                f"{name} {self.of(['<', '<=', '>', '>='])} {one}",
                f"{name} BETWEEN {one} AND {other}",
            ]
        if name == "text":
            forms += ["text LIKE 'a%'", "text LIKE 'long%'", "text LIKE 'é'", "text LIKE '%b'"]
        return str(self.of(forms))


def literal(name: str, value: Any) -> str:
    """Return a value as it is written in SQL."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, dt.datetime):
        kind = "TIMESTAMP" if name == "at" else "TIMESTAMP_NTZ"
        return f"{kind} '{value.replace(tzinfo=None).isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, float):
        kind = "FLOAT" if name == "single" else "DOUBLE"
        return f"CAST('{value!r}' AS {kind})"
    if isinstance(value, Decimal):
        return f"CAST('{value}' AS DECIMAL(12, 3))"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    return f"CAST('{value}' AS {'INT' if name == 'small' else 'BIGINT'})"


Step = Callable[[Table, Draw], object]


def _update_columns(table: Table, draw: Draw) -> object:
    names = [name for name in POOLS if draw.chance(0.4)]
    if "hoodie.table.partial.update.mode" in table.config.properties:
        return table.upsert(draw.rows(5))  # fills nulls by itself
    return table.update_columns(draw.rows(5, ["id", "dt", "ts", *names]))


def _delete_partition(table: Table, draw: Draw) -> object:
    try:
        return table.delete_partitions([draw.of(PARTITIONS)])
    except NotFoundError:
        return None


def _roll_back(table: Table, _: Draw) -> object:
    try:
        return table.rollback(table.history().column("instant").to_pylist()[0])
    except InvalidError:
        return None  # a service did more since


def _rewrite(table: Table, draw: Draw) -> object:
    if table.config.index is not None and not table.config.index.hash_fields and draw.chance(0.5):
        return table.cluster()
    if table.config.table_type == "MERGE_ON_READ":
        return table.compact(mode=draw.of(["full", "log", "hybrid"]))
    return table.clean()


def _write_unindexed(table: Table, draw: Draw) -> object:
    """Write as another engine does, which knows of no index, and may insert keys twice."""
    hashes = table.config.index is not None and table.config.index.hashes_keys
    with unindexed(table):
        if hashes or draw.chance(0.5):
            return table.upsert(draw.rows(4))
        return table.bulk_insert(draw.rows(2))


def _compact_indexes(table: Table, _: Draw) -> object:
    return [table.compact_index(index.name) for index in table.indexes()]


def _settle_while_pending(table: Table, draw: Draw) -> object:
    """Compact the indexes between the plan of a compaction and its execution."""
    if table.config.table_type != "MERGE_ON_READ":
        return None
    table.delete([{"id": draw.of(KEYS), "dt": draw.of(PARTITIONS)} for _ in range(6)])
    table.schedule_compaction(options={"hoodie.compact.inline.max.delta.commits": "1"})
    table.upsert(draw.rows(12))
    _compact_indexes(table, draw)
    return table.compact() if draw.chance(0.7) else None


def _complete_partial_rows(table: Table, draw: Draw) -> object:
    """Update a few columns, and compact the indexes before late rows of the same keys arrive."""
    _update_columns(table, draw)
    _compact_indexes(table, draw)
    draw.time -= 1
    return table.upsert(draw.rows(20))


def _rebuild(table: Table, draw: Draw) -> object:
    names = [index.name for index in table.indexes()]
    if not names:
        return None
    name = draw.of(names)
    columns = next(index.columns for index in table.indexes() if index.name == name)
    table.drop_index(name)
    return table.create_index(name, columns)


STEPS: list[Step] = [
    lambda table, draw: table.upsert(draw.rows(12)),
    lambda table, draw: table.upsert(draw.rows(3)),
    lambda table, draw: table.upsert(draw.rows(30)),
    _update_columns,
    lambda table, draw: table.delete([{"id": draw.of(KEYS), "dt": draw.of(PARTITIONS)}]),
    lambda table, draw: table.delete(where=draw.query()),
    lambda table, draw: table.insert_overwrite(draw.rows(10)),
    _delete_partition,
    _rewrite,
    _rewrite,
    _write_unindexed,
    _roll_back,
    _rebuild,
    _compact_indexes,
    _settle_while_pending,
    _complete_partial_rows,
]


def history(table: Table, draw: Draw, steps: int) -> Iterator[None]:
    """Create indexes and change the table; yield after each step."""
    table.upsert(draw.rows(20))
    for columns in draw.random.permutation(np.array(INDEXES, dtype=object))[:5]:
        name = "by_" + "_".join(columns).replace(".", "_")
        table.create_index(name, columns)
        draw.indexed.append(columns[0].partition(".")[0])
    yield
    for _ in range(steps):
        draw.of(STEPS)(table, draw)
        if any(index.state != "ready" for index in table.indexes()) and draw.chance(0.7):
            table.repair()
        yield
