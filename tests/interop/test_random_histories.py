"""Histories drawn at random that Apache Hudi and Lakebed write in turns: a dict says what is there.

Hudi keeps its metadata table with column statistics, which a write of ours retires and its next
writer builds again: with data skipping on, nothing that it remembers may hide a row.
"""

import pathlib
import random
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi

Row = dict[str, Any]

SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("v", pa.int64()),
        ("ts", pa.int64()),
        ("city", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
CITIES: Final = ("oslo", "kyiv", "new town")
WRITE: Final = "hoodie.datasource.write."
STATISTICS: Final = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}
SKIPPING: Final = {**STATISTICS, "hoodie.enable.data.skipping": "true"}
OPTIONS: Final = {
    **STATISTICS,
    "hoodie.table.name": "t",
    f"{WRITE}recordkey.field": "id",
    f"{WRITE}precombine.field": "ts",
    f"{WRITE}partitionpath.field": "city",
    "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.simple.index.parallelism": "1",
    "hoodie.bloom.index.parallelism": "1",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
COMPACT: Final = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
}
CLEAN: Final = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
AT_ONCE: Final = {"lakebed.clean.min.age.seconds": "0", "hoodie.clean.commits.retained": "1"}


class History:
    """A table of both engines and what it must hold."""

    def __init__(self, hudi: Hudi, path: pathlib.Path, seed: int, **options: str) -> None:
        self.hudi, self.path = hudi, path
        self.random = random.Random(seed)
        self.options = {**OPTIONS, **options}
        self.rows: dict[str, Row] = {}
        self.number = self.tick = 0

    @property
    def table(self) -> lakebed.Table:
        return lakebed.open_table(None, str(self.path))

    def some_keys(self) -> list[int]:
        """Choose some keys that are there."""
        live = [int(key[1:]) for key in sorted(self.rows)]
        return self.random.sample(live, min(len(live), self.random.randint(1, 4)))

    def new_keys(self) -> list[int]:
        """Return some keys that never were there."""
        first, self.number = self.number, self.number + self.random.randint(2, 5)
        return list(range(first, self.number))

    def made(self, keys: list[int], *, plain: bool = False) -> list[Row]:
        """Make a row for each key; unless `plain`, some come late and some are deletes."""
        self.tick += 10
        found = []
        for number in keys:
            row: Row = {"id": f"k{number:03}", "city": CITIES[number % 3], "ts": self.tick}
            row |= {"v": self.random.randrange(-1000, 1000), "_hoodie_is_deleted": False}
            old = self.rows.get(row["id"])
            if not plain and old is not None and self.random.random() < 0.5:
                late = self.random.random() < 0.5
                row |= {"ts": old["ts"] - 1} if late else {"_hoodie_is_deleted": True}
            found.append(row)
        return found

    def note(self, rows: list[Row]) -> pa.Table:
        """Note what an upsert of `rows` changes; give them as a table."""
        for row in rows:
            old = self.rows.get(row["id"])
            if old is not None and row["ts"] < old["ts"]:
                continue
            self.rows[row["id"]] = row
            if row["_hoodie_is_deleted"]:
                del self.rows[row["id"]]
        return pa.Table.from_pylist(rows, SCHEMA)

    def note_replaced(self) -> pa.Table:
        """Note new rows that replace their partitions; give them as a table."""
        rows = self.made(self.new_keys(), plain=True)
        gone = {row["city"] for row in rows}
        self.rows = {key: row for key, row in self.rows.items() if row["city"] not in gone}
        return self.note(rows)

    def hudi_write(self, rows: pa.Table, operation: str = "upsert", **more: str) -> None:
        self.hudi.write(self.path, rows, {**self.options, f"{WRITE}operation": operation, **more})

    def hudi_upsert(self, **more: str) -> None:
        self.hudi_write(self.note(self.made(self.some_keys() + self.new_keys())), **more)

    def hudi_delete(self) -> None:
        gone = [self.rows.pop(f"k{number:03}") for number in self.some_keys()]
        self.hudi_write(pa.Table.from_pylist(gone, SCHEMA), "delete")

    def upsert(self) -> None:
        self.table.upsert(self.note(self.made(self.some_keys() + self.new_keys())))

    def delete(self) -> None:
        gone = [self.rows.pop(f"k{number:03}") for number in self.some_keys()]
        self.table.delete([{"id": row["id"], "city": row["city"]} for row in gone])

    def update(self) -> None:
        rows = self.made(self.some_keys(), plain=True)
        whole = self.note([self.rows[row["id"]] | row for row in rows])
        self.table.update_columns(whole.select(["id", "city", "ts", "v"]))

    def has_logs(self) -> bool:
        return self.options[f"{WRITE}table.type"] == "MERGE_ON_READ"

    def hudi_steps(self) -> list[Callable[[], object]]:
        """Return what Hudi may do next."""
        return [
            self.hudi_upsert,
            self.hudi_delete,
            lambda: self.hudi_upsert(**(COMPACT if self.has_logs() else {})),
            lambda: self.hudi_upsert(**CLEAN),
            lambda: self.hudi_write(self.note_replaced(), "insert_overwrite"),
        ]

    def our_steps(self) -> list[Callable[[], object]]:
        """Return what we may do next."""
        return [
            self.upsert,
            self.delete,
            self.update,
            *([self.table.compact] if self.has_logs() else []),
            lambda: self.table.clean(options=AT_ONCE),
            lambda: self.table.insert_overwrite(self.note_replaced()),
        ]

    def check(self) -> None:
        """Read with both engines, Hudi also with a filter that its statistics answer."""
        bound = self.random.randrange(-1000, 1000)
        assert brief(self.table.read().read_all().to_pylist()) == brief(self.rows.values())
        seen = self.hudi.read(self.path, **SKIPPING).to_pylist()
        assert brief(seen) == brief(self.rows.values())
        view = f"`random_{self.path.name}`"
        settings = ", ".join(f"'{name}' = '{value}'" for name, value in SKIPPING.items())
        self.hudi.sql(
            f"CREATE OR REPLACE TEMPORARY VIEW {view} USING hudi "
            f"OPTIONS ('path' = '{self.path}', {settings})"
        )
        above = self.hudi.sql(f"SELECT id FROM {view} WHERE v > {bound}")["rows"]
        assert sorted(key for (key,) in above) == sorted(
            key for key, row in self.rows.items() if row["v"] > bound
        )


def brief(rows: Any) -> list[tuple[str, int, int, str]]:
    return sorted((row["id"], row["v"], row["ts"], row["city"]) for row in rows)


@pytest.mark.parametrize(
    ("table_type", "version", "index", "seed"),
    [("MERGE_ON_READ", "9", "SIMPLE", 3), ("COPY_ON_WRITE", "8", "BLOOM", 4)],
)
def test_both_write_in_turns_and_nothing_is_hidden(
    hudi: Hudi, tmp_path: pathlib.Path, table_type: str, version: str, index: str, seed: int
):
    history = History(
        hudi,
        tmp_path / f"seed_{seed}",
        seed,
        **{
            f"{WRITE}table.type": table_type,
            "hoodie.write.table.version": version,
            "hoodie.index.type": index,
        },
    )
    history.hudi_upsert()
    for _ in range(3):
        for steps in (history.our_steps, history.hudi_steps):
            history.random.choice(steps())()
            history.check()


@pytest.mark.parametrize("blocks", ["avro", "parquet"])
def test_hudi_does_not_take_an_update_of_some_columns_for_a_delete(
    hudi: Hudi, tmp_path: pathlib.Path, blocks: str
):
    """Hudi 1.2.0 hides such rows if they are partial; what it writes itself it cannot read then."""
    history = History(
        hudi,
        tmp_path / blocks,
        0,
        **{
            f"{WRITE}table.type": "MERGE_ON_READ",
            "hoodie.index.type": "SIMPLE",
            "hoodie.logfile.data.block.format": blocks,
            "hoodie.metadata.enable": "false",
        },
    )
    history.hudi_upsert()
    history.update()
    history.check()
