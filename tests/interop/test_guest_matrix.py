"""A guest on tables that Apache Hudi made: it writes, we read and write, and it goes on.

Each combination is one small table. Hudi inserts, updates and deletes; we read the same rows, meta
columns included; we upsert and delete; Hudi (with and without its metadata table) and hudi-rs read
what a dict says; then Hudi upserts once more, and both read the same.
"""

import itertools
import pathlib
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi, HudiRs
from support.model import ModelTable, Shape
from support.pairs import pairwise

Row = dict[str, Any]

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("no", pa.int64()),
        ("v", pa.int64()),
        ("ts", pa.int64()),
        ("city", pa.string()),
        ("at", pa.int64()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
META = tuple(
    f"_hoodie_{name}"
    for name in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
)
DAY_MS = 86_400_000
KEYGEN = "org.apache.hudi.keygen."
WRITE = "hoodie.datasource.write."
HIVE = {f"{WRITE}hive_style_partitioning": "true"}
ENCODED = {f"{WRITE}partitionpath.urlencode": "true"}
MILLIS = {
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
    "hoodie.keygen.timebased.timezone": "UTC",
}
BLOCKS = "hoodie.logfile.data.block.format"


@dataclass(frozen=True)
class Keys:
    """How a table spells keys and partitions."""

    generator: str
    key: str
    partition: str
    options: Mapping[str, str]
    cities: tuple[str, str, str] = ("oslo", "kyiv", "new town")


KEYS = {
    "plain": Keys("SimpleKeyGenerator", "id", "city", {}),
    "hive": Keys("SimpleKeyGenerator", "id", "city", HIVE),
    "encoded": Keys(
        "SimpleKeyGenerator", "id", "city", {**HIVE, **ENCODED}, ("a/b", "x=y z", "50%é")
    ),
    "levels": Keys("ComplexKeyGenerator", "id,no", "city,no", {}),
    "hive_levels": Keys("ComplexKeyGenerator", "id", "city,no", HIVE),
    "none": Keys("NonpartitionedKeyGenerator", "id", "", {}),
    "timestamp": Keys("TimestampBasedKeyGenerator", "id", "at", MILLIS),
}
STORED = {
    "cow": {f"{WRITE}table.type": "COPY_ON_WRITE"},
    "avro": {f"{WRITE}table.type": "MERGE_ON_READ", BLOCKS: "avro"},
    "parquet": {f"{WRITE}table.type": "MERGE_ON_READ", BLOCKS: "parquet"},
}
INDEXES = {
    "unnamed": {},
    "bloom": {"hoodie.index.type": "BLOOM"},
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
}


@dataclass(frozen=True)
class Case:
    """One combination."""

    keys: str
    stored: str
    version: str
    merge: str
    index: str
    metadata: str

    @property
    def name(self) -> str:
        """Return a name that is good for a table too."""
        return "_".join(getattr(self, field.name) for field in fields(self))

    def options(self, **more: str) -> dict[str, str]:
        """Return the options of Hudi's writer."""
        keys = KEYS[self.keys]
        return {
            "hoodie.table.name": self.name,
            f"{WRITE}operation": "upsert",
            f"{WRITE}keygenerator.class": KEYGEN + keys.generator,
            f"{WRITE}recordkey.field": keys.key,
            f"{WRITE}partitionpath.field": keys.partition,
            f"{WRITE}precombine.field": "ts",
            "hoodie.write.record.merge.mode": f"{self.merge.upper()}_TIME_ORDERING",
            "hoodie.write.table.version": self.version,
            "hoodie.write.auto.upgrade": "false",
            # In version 8 Hudi asks whether a COMPLEX key of one field is spelled as it should.
            "hoodie.write.complex.keygen.validation.enable": "false",
            "hoodie.metadata.enable": str(self.metadata == "mdt").lower(),
            "hoodie.embed.timeline.server": "false",
            "hoodie.upsert.shuffle.parallelism": "1",
            "hoodie.simple.index.parallelism": "1",
            "hoodie.bloom.index.parallelism": "1",
            # What only costs time: services after a write, and large filters in small files.
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.bloom.index.filter.type": "SIMPLE",
            "hoodie.index.bloom.num_entries": "100",
            # Some of the metadata tables hold statistics too.
            "hoodie.metadata.index.column.stats.enable": str(self.keys == "plain").lower(),
            **keys.options,
            **STORED[self.stored],
            **INDEXES[self.index],
            **more,
        }


def cases() -> list[Case]:
    """Return so many of all keys, storages and versions that every two choices meet."""
    merges, indexes = ("event", "commit"), tuple(INDEXES)
    found = []
    of = itertools.product(enumerate(KEYS), enumerate(STORED), enumerate("89"))
    for (k, keys), (s, stored), (v, version) in of:
        merge = merges[(k + s // 2 + v) % 2]
        index = indexes[(k + s + v) % 3]
        metadata = "mdt" if (k + 2 * s + v) % 3 == 0 else "off"
        found.append((keys, stored, version, merge, index, metadata))
    return [Case(*chosen) for chosen in pairwise(found)]


CASES = cases()


def test_every_pair_of_choices_is_tried():
    assert {case.keys for case in CASES} == KEYS.keys()
    assert {case.stored for case in CASES} == STORED.keys()
    assert {case.index for case in CASES} == INDEXES.keys()
    assert {case.version for case in CASES} == set("89")
    names = [field.name for field in fields(Case)]
    for one, other in itertools.combinations(names, 2):
        tried = {(getattr(case, one), getattr(case, other)) for case in CASES}
        firsts, seconds = ({getattr(case, name) for case in CASES} for name in (one, other))
        assert tried == set(itertools.product(firsts, seconds)), (one, other)


def row(case: Case, number: int, v: int, ts: int, *, gone: bool = False) -> Row:
    """Return a row; its key and partition follow from `number`."""
    city = KEYS[case.keys].cities[number % 3 if number < 90 else 2]
    return {
        "id": f"käse {number}",
        "no": number % 2,
        "v": v,
        "ts": ts,
        "city": city,
        "at": number % 3 * DAY_MS * 400 + number,
        "_hoodie_is_deleted": gone,
    }


class Model(ModelTable):
    """What the table must hold; no row comes late after a delete."""

    def __init__(self, case: Case) -> None:
        ordering = ("ts",) if case.merge == "event" else ()
        super().__init__(Shape(table_type="COPY_ON_WRITE", ordering=ordering, partition_by=()))

    def upsert(self, rows: Iterable[Row]) -> None:
        self.merge([[self.version(row, "")] for row in rows])

    def expected(self) -> list[tuple[str, int, int, str, int]]:
        return brief(self.rows().values())


def brief(rows: Iterable[Row]) -> list[tuple[str, int, int, str, int]]:
    # Hudi's reader gives a timestamp partition column as text (format.md 13.3).
    return sorted((r["id"], r["v"], r["ts"], r["city"], int(r["at"])) for r in rows)


def table_of(rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def with_meta(rows: pa.Table) -> list[tuple[Any, ...]]:
    names = [*META, "id", "no", "v", "ts", "city"]
    return sorted(tuple(row[name] for name in names) for row in rows.to_pylist())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_we_read_and_write_a_table_of_hudis_and_hudi_goes_on(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path, case: Case
):
    path = tmp_path / case.name
    model = Model(case)

    first = [row(case, n, 1, 10) for n in range(8)]
    second = [
        row(case, 0, 2, 20),
        row(case, 1, 2, 5),  # late
        row(case, 2, 2, 30, gone=True),
        row(case, 8, 2, 10),
    ]
    hudi.write(path, table_of(first), case.options(), mode="overwrite")
    hudi.write(path, table_of(second), case.options())
    model.upsert(first)
    model.upsert(second)

    table = lakebed.open_table(None, str(path))
    assert table.config.version == int(case.version)
    assert ("files" in table.config.properties.get("hoodie.table.metadata.partitions", "")) == (
        case.metadata == "mdt"
    )
    ours = table.read(columns=[*META, *SCHEMA.names]).read_all()
    assert with_meta(ours) == with_meta(hudi.read(path))
    assert brief(ours.to_pylist()) == model.expected()

    third = [
        row(case, 0, 3, 40),
        row(case, 3, 3, 1),  # late
        row(case, 2, 3, 50),  # was deleted
        row(case, 4, 3, 60, gone=True),
        row(case, 9, 3, 10),
        row(case, 95, 3, 10),
    ]
    named: dict[str, Any] = {"index": "bucket", "buckets": 2} if case.index == "bucket" else {}
    table.upsert(table_of(third), **named)
    model.upsert(third)
    gone = row(case, 5, 0, 0)
    table.delete([{name: gone[name] for name in ("id", "no", "city", "at")}])
    model.merge([[model.delete_of(gone)]])

    assert brief(table.read().read_all().to_pylist()) == model.expected()
    plain = hudi.read(path, **{"hoodie.metadata.enable": "false"})
    assert brief(plain.to_pylist()) == model.expected()
    assert hudi.read(path, **{"hoodie.metadata.enable": "true"}).equals(plain)
    ours = table.read(columns=[*META, *SCHEMA.names]).read_all()
    assert with_meta(ours) == with_meta(plain)
    assert brief(hudi_rs.read(path).to_pylist()) == model.expected()

    fourth = [
        row(case, 0, 4, 70),
        row(case, 9, 4, 20),  # in a file of ours
        row(case, 3, 4, 80, gone=True),
        row(case, 95, 4, 20),
        row(case, 10, 4, 10),
    ]
    hudi.write(path, table_of(fourth), case.options())
    model.upsert(fourth)
    last = hudi.read(path, **{"hoodie.metadata.enable": "true"})
    assert brief(last.to_pylist()) == model.expected()
    ours = table.read(columns=[*META, *SCHEMA.names]).read_all()
    assert with_meta(ours) == with_meta(last)


LISTED = "hoodie.table.metadata.partitions"
ON, OFF = {"hoodie.metadata.enable": "true"}, {"hoodie.metadata.enable": "false"}


def check_all_read(hudi: Hudi, path: pathlib.Path, model: Model) -> None:
    """Check what Hudi reads with and without its metadata table, and we."""
    for how in (ON, OFF):
        assert brief(hudi.read(path, **how).to_pylist()) == model.expected()
    ours = lakebed.open_table(None, str(path)).read().read_all()
    assert brief(ours.to_pylist()) == model.expected()


def test_a_record_index_goes_only_with_the_callers_word_and_hudi_builds_it_again(
    hudi: Hudi, tmp_path: pathlib.Path
):
    case = Case("plain", "cow", "9", "event", "unnamed", "mdt")
    index = {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"}
    path, model = tmp_path / case.name, Model(case)
    first = [row(case, n, 1, 10) for n in range(4)]
    hudi.write(path, table_of(first), case.options(**index), mode="overwrite")
    model.upsert(first)
    second = [row(case, 0, 2, 20), row(case, 9, 2, 20)]
    with pytest.raises(lakebed.UnsupportedError, match=r"an index \(record_index\)"):
        lakebed.open_table(None, str(path)).upsert(table_of(second))
    check_all_read(hudi, path, model)
    lakebed.open_table(None, str(path), properties=OFF).upsert(table_of(second))
    model.upsert(second)
    assert hudi.properties(path)[LISTED] == ""
    check_all_read(hudi, path, model)
    third = [row(case, 1, 3, 30), row(case, 9, 3, 30)]
    hudi.write(path, table_of(third), case.options(**index))
    model.upsert(third)
    assert "record_index" in hudi.properties(path)[LISTED]
    check_all_read(hudi, path, model)


@pytest.mark.parametrize("keeps", ["all", "no files", "only properties"])
def test_hudi_builds_its_metadata_table_again_over_what_a_crash_of_ours_left(
    hudi: Hudi, tmp_path: pathlib.Path, keeps: str
):
    case = Case("none", "cow", "9", "event", "unnamed", "mdt")
    path, model = tmp_path / case.name, Model(case)
    first = [row(case, n, 1, 10) for n in range(4)]
    hudi.write(path, table_of(first), case.options(), mode="overwrite")
    folder, aside = path / ".hoodie" / "metadata", tmp_path / "aside"
    shutil.copytree(folder, aside)
    second = [row(case, 0, 2, 20), row(case, 9, 2, 20)]
    lakebed.open_table(None, str(path)).upsert(table_of(second))
    # As if the folder had not been deleted, or not yet all of it.
    shutil.rmtree(folder)
    shutil.copytree(aside, folder)
    for file in [found for found in folder.rglob("*") if found.is_file()]:
        is_data = file.relative_to(folder).parts[0] == "files"
        if (keeps == "no files" and is_data) or (
            keeps == "only properties" and file.name != "hoodie.properties"
        ):
            file.unlink()
    model.upsert(first)
    model.upsert(second)
    check_all_read(hudi, path, model)
    third = [row(case, 1, 3, 30), row(case, 9, 3, 30)]
    hudi.write(path, table_of(third), case.options())
    model.upsert(third)
    assert "files" in hudi.properties(path)[LISTED]
    check_all_read(hudi, path, model)


def test_partition_metadata_as_parquet_stays_readable_beside_ours(
    hudi: Hudi, tmp_path: pathlib.Path
):
    case = Case("plain", "cow", "9", "event", "unnamed", "off")
    as_base = {"hoodie.partition.metafile.use.base.format": "true"}
    path, model = tmp_path / case.name, Model(case)
    first = [row(case, n, 1, 10) for n in range(2)]
    hudi.write(path, table_of(first), case.options(**as_base), mode="overwrite")
    assert list(path.glob("*/.hoodie_partition_metadata.parquet"))
    second = [row(case, 0, 2, 20), row(case, 2, 2, 20)]
    lakebed.open_table(None, str(path)).upsert(table_of(second))
    assert list(path.glob("*/.hoodie_partition_metadata"))
    third = [row(case, 2, 3, 30), row(case, 4, 3, 30)]
    hudi.write(path, table_of(third), case.options(**as_base))
    for rows in (first, second, third):
        model.upsert(rows)
    check_all_read(hudi, path, model)
