"""Tables to damage: those of Apache Hudi's fixtures, and a few of our own with what they lack."""

import io
import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakebed
from lakebed.storage.open import open_storage
from lakebed.storage.storage import Storage
from support.fixtures import names, unpack
from support.tables import contents, make
from support.version_6 import as_version_6

REPOSITORY = Path(__file__).parents[2]
HUDI_RS = Path(
    os.environ.get("LAKEBED_HUDI_RS_FIXTURES", REPOSITORY.parent / "shared/fixtures/hudi-rs")
)
MAX_FILE_BYTES = 300_000
_SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("ts", pa.int64())])
# Files that nothing of ours looks at: markers of work, partition metadata, Hudi's metadata table.
_UNREAD = (".crc", ".hoodie_partition_metadata", ".inflight")
_UNREAD_FOLDERS = (".hoodie/metadata/", ".hoodie/.locks/", ".hoodie/.temp/", ".hoodie/.heartbeat/")
LESS_COMMITTED = frozenset({"mini_corrupt_mid"})
"""Tables whose commits record fewer rows than their logs hold: losses cannot be detected."""
_CDC = {"hoodie.table.cdc.enabled": "true"}
_OURS: dict[str, dict[str, Any]] = {
    "ours_v8_avro": {
        "table_version": 8,
        "properties": {"hoodie.logfile.data.block.format": "avro"},
    },
    "ours_v9_avro": {
        "table_version": 9,
        "properties": {"hoodie.logfile.data.block.format": "avro"},
    },
    "ours_v9_parquet": {"table_version": 9},
    "ours_v9_cdc": {"table_version": 9, "properties": _CDC},
    "ours_v10": {"table_version": 10},
    "ours_v10_cdc": {"table_version": 10, "properties": _CDC},
    "ours_v9_hashing": {"table_version": 9, "index": "consistent_hashing", "buckets": 4},
}


@dataclass(frozen=True, slots=True)
class Victim:
    """One file of one table."""

    table: str
    path: str


def unpack_all(folder: Path) -> None:
    """Put every table below `folder`."""
    for name in names():
        unpack(name, folder)
    for archive in sorted(HUDI_RS.glob("*v6*.zip")):
        _unzip(archive, folder / archive.stem)
    for name, settings in _OURS.items():
        table = lakebed.create_table(
            None,
            str(folder / name),
            _SCHEMA,
            key="id",
            ordering="ts",
            **{"buckets": 1, **settings},
        )
        _fill(table)
    for name, settings in (("ours_v6_avro", "avro"), ("ours_v6_parquet", "parquet")):
        given = {"hoodie.logfile.data.block.format": settings}
        table = make(
            schema=_SCHEMA,
            table_type="MERGE_ON_READ",
            ordering=("ts",),
            partition_by=(),
            buckets=1,
            properties=given,
        )
        _fill(table)
        _put(as_version_6(table._storage), open_storage(str(folder / name)))


def _put(source: Storage, target: Storage) -> None:
    for path, data in contents(source).items():
        target.put(path, data)


def _unzip(archive: Path, into: Path) -> None:
    data = io.BytesIO(archive.read_bytes())
    with zipfile.ZipFile(data) as packed:
        members = [m for m in packed.namelist() if not m.startswith("__MACOSX")]
        top = members[0].split("/")[0]
        packed.extractall(into.parent / f"{into.name}.tmp", members)
    (into.parent / f"{into.name}.tmp" / top).rename(into)
    (into.parent / f"{into.name}.tmp").rmdir()


def _fill(table: lakebed.Table) -> None:
    rows = [{"id": f"k{i}", "n": i, "ts": 1} for i in range(40)]
    table.bulk_insert(pa.Table.from_pylist(rows, _SCHEMA))
    table.upsert(pa.Table.from_pylist([{**row, "ts": 2} for row in rows[:10]], _SCHEMA))
    table.update_columns(pa.table({"id": ["k1"], "ts": [3], "n": [-1]}))
    table.delete([{"id": "k2"}])


def tables(folder: Path) -> list[str]:
    """Name the tables below `folder`, in an order that never changes."""
    return sorted(path.name for path in folder.iterdir())


def victims(folder: Path, names: Iterable[str]) -> list[Victim]:
    """Return the files that a call on these tables looks at."""
    found = []
    for table in names:
        for file in sorted((folder / table).rglob("*")):
            path = file.relative_to(folder / table).as_posix()
            if not file.is_file() or file.name.endswith(_UNREAD):
                continue
            if path.startswith(_UNREAD_FOLDERS):
                continue
            if 0 < file.stat().st_size <= MAX_FILE_BYTES:
                found.append(Victim(table, path))
    return found
