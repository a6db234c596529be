"""Change data: what changed between two base files, and the log that says so."""

import random
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.errors import UnavailableError, UnsupportedError
from lakebed.format.avro.avro_schema import arrow_to_avro
from lakebed.format.logs.cdc import LoggingMode, cdc_schema
from lakebed.format.logs.log_block import HeaderKey
from lakebed.format.logs.native_footer import FooterKind, parse_log_footer
from lakebed.format.names.data_names import BaseFileName
from lakebed.format.names.meta_columns import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY
from lakebed.merge.rule import MergeRule
from lakebed.storage.objects import memory_storage
from lakebed.table.changes.cdc_changes import ChangeFinder
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import BaseFile, FileGroupId
from lakebed.table.store.cdc_log import CdcTarget, ChangeLog, open_change_log
from lakebed.table.store.data_writer import DataFileWriter, NewDataFile
from support.cdc import cdc_blocks, cdc_paths, cdc_records
from support.crash_points import Work

OLD, NOW = "20240101000000000", "20240101000000009"
FILE_ID = "00000000-0000-4000-8000-000000000001-0"
INLINE = f"p/.{FILE_ID}_{NOW}.log.1_0-1-2.cdc"
NATIVE = f"p/{FILE_ID}_0-1-2_{NOW}_1.cdc.parquet"
INNER = pa.struct([pa.field("n", pa.int16(), nullable=False), ("w", pa.list_(pa.string()))])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("v", pa.int64()),
        pa.field("s", INNER, nullable=False),
    ]
)
STAMPED = pa.schema(
    [(RECORD_KEY, pa.string()), (COMMIT_TIME, pa.string()), (COMMIT_SEQNO, pa.string()), *SCHEMA]
)
Told = tuple[str, str | None, int]


def stamped(*rows: Told) -> pa.RecordBatch:
    """Return rows of a key, the commit that wrote it (None: this one), and a value."""
    made = [
        {
            RECORD_KEY: key,
            COMMIT_TIME: commit,
            COMMIT_SEQNO: None if commit is None else f"{commit}_{key}",
            "id": key,
            "v": value,
            "s": {"n": value, "w": [key]},
        }
        for key, commit, value in rows
    ]
    return pa.RecordBatch.from_pylist(made, schema=STAMPED)


def found_by(finder: ChangeFinder, news: list[pa.RecordBatch]) -> list[tuple]:
    parts = [changes for new in news for changes in finder.put(new)]
    parts += finder.finish()
    told = []
    for part in parts:
        before = part.before.to_pylist() if part.before is not None else [None] * len(part.keys)
        after = part.after.to_pylist() if part.after is not None else [None] * len(part.keys)
        keys, ops = part.keys.to_pylist(), part.ops.to_pylist()
        assert keys
        told += zip(keys, ops, before, after, strict=True)
    return told


def image(key: str, value: int) -> dict:
    return {"id": key, "v": value, "s": {"n": value, "w": [key]}}


def test_inserts_updates_and_deletes_are_told_apart_and_untouched_rows_are_not_told():
    old = [stamped(("a", OLD, 1), ("b", OLD, 2), ("c", OLD, 3), ("e", OLD, 5))]
    new = [stamped(("a", OLD, 1), ("b", None, 2), ("d", None, 4), ("e", OLD, 5))]
    assert found_by(ChangeFinder(old, SCHEMA, SCHEMA), new) == [
        ("b", "u", image("b", 2), image("b", 2)),
        ("c", "d", image("c", 3), None),
        ("d", "i", None, image("d", 4)),
    ]


def test_a_row_of_another_commit_is_an_update_also_where_nothing_is_being_written():
    """So it is in a compaction: rows of logs bring the commit times that they have."""
    old = [stamped(("a", OLD, 1), ("b", OLD, 2))]
    new = [stamped(("a", "20240101000000004", 1), ("b", OLD, 2))]
    assert [told[:2] for told in found_by(ChangeFinder(old, None, None), new)] == [("a", "u")]


def batches_of(rows: list[Told], cuts: random.Random) -> list[pa.RecordBatch]:
    ends = sorted({0, len(rows), *(cuts.randint(0, len(rows)) for _ in range(3))})
    made = [stamped(*rows[start:end]) for start, end in pairwise(ends)]
    return made if cuts.random() < 0.5 else [stamped(), *made, stamped()]


@pytest.mark.parametrize("seed", range(60))
def test_however_the_rows_are_cut_the_changes_are_those_of_two_dicts(seed: int):
    chance = random.Random(seed)
    keys = [f"k{n:02}é" for n in range(chance.choice([0, 1, 3, 40]))]
    old = {key: chance.randint(0, 9) for key in keys if chance.random() < 0.7}
    new: dict[str, Told] = {}
    wanted = []
    for key in keys:
        before = image(key, old[key]) if key in old else None
        fate = chance.choice(["stays", "written", "gone"])
        if fate == "gone" or (fate == "stays" and before is None):
            if before is not None:
                wanted.append((key, "d", before, None))
        elif fate == "stays":
            new[key] = (key, OLD, old[key])
        else:
            new[key] = (key, None, 7)
            wanted.append((key, "i" if before is None else "u", before, image(key, 7)))
    finder = ChangeFinder(
        batches_of([(key, OLD, value) for key, value in old.items()], chance), SCHEMA, SCHEMA
    )
    assert found_by(finder, batches_of(list(new.values()), chance)) == wanted


def config(version: int = 9, mode: str = "DATA_BEFORE_AFTER", enabled: str = "true") -> TableConfig:
    return TableConfig.parse(
        {
            "hoodie.table.name": "t",
            "hoodie.table.version": str(version),
            "hoodie.timeline.layout.version": "2",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.keygenerator.type": "SIMPLE",
            "hoodie.table.partition.fields": "p",
            "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
            "hoodie.table.cdc.enabled": enabled,
            "hoodie.table.cdc.supplemental.logging.mode": mode,
        },
        "t",
    )


def target(storage, config_: TableConfig | None = None) -> CdcTarget:
    return CdcTarget(
        storage=storage,
        config=config_ or config(),
        group=FileGroupId("p", FILE_ID),
        write_token="0-1-2",
        instant=NOW,
        schema=SCHEMA,
        schema_text=arrow_to_avro(SCHEMA, "t"),
    )


def base_file(storage, keys: str = "abc") -> BaseFile:
    name = BaseFileName(FILE_ID, "0-0-0", OLD)
    path = f"p/{name.encode()}"
    with DataFileWriter(
        storage.open_write(path), NewDataFile(path, SCHEMA, "t", OLD, partition_path="p")
    ) as writer:
        rows = stamped(*((key, OLD, ord(key)) for key in keys))
        writer.write(rows.select(SCHEMA.names), rows.column(RECORD_KEY))
    return BaseFile("p", name, storage.head(path).size)


def carried(storage, base: BaseFile) -> pa.RecordBatch:
    """Return the rows of a base file as a rewrite carries them over."""
    table = pq.read_table(pa.BufferReader(storage.read(base.path)))
    return table.select(STAMPED.names).cast(STAMPED).combine_chunks().to_batches()[0]


BOTH = {"op": "u", "ts_ms": NOW, "before": image("b", ord("b")), "after": image("b", 0)}
GONE = {"op": "d", "ts_ms": NOW, "before": image("c", ord("c")), "after": None}
NEW = {"op": "i", "ts_ms": NOW, "before": None, "after": image("d", 1)}
WANTED = {
    "DATA_BEFORE_AFTER": [BOTH, GONE, NEW],
    "DATA_BEFORE": [
        {"op": "u", "record_key": "b", "before": BOTH["before"]},
        {"op": "d", "record_key": "c", "before": GONE["before"]},
        {"op": "i", "record_key": "d", "before": None},
    ],
    "OP_KEY_ONLY": [
        {"op": "u", "record_key": "b"},
        {"op": "d", "record_key": "c"},
        {"op": "i", "record_key": "d"},
    ],
}


def rewrite(storage, config_: TableConfig) -> dict[str, int]:
    base = base_file(storage)
    log = open_change_log(target(storage, config_), base, MergeRule())
    assert log is not None
    with log:
        log.put(carried(storage, base).slice(0, 1))
        log.put(stamped(("b", None, 0), ("d", None, 1)))
        return log.close()


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize("mode", WANTED)
def test_each_mode_writes_its_fields_in_key_order(mode: str, version: int):
    storage = memory_storage()
    stats = rewrite(storage, config(version, mode))
    path = NATIVE if version == 10 else INLINE
    assert stats == {path: storage.head(path).size}
    assert cdc_records(storage, path) == WANTED[mode]
    assert [list(record) for record in cdc_records(storage, path)] == [
        list(record) for record in WANTED[mode]
    ]


def test_an_inline_log_says_its_instant_and_schema():
    storage = memory_storage()
    rewrite(storage, config())
    [(headers, _)] = cdc_blocks(storage.read(INLINE))
    schema = cdc_schema(LoggingMode.DATA_BEFORE_AFTER, arrow_to_avro(SCHEMA, "t"))
    assert headers == {HeaderKey.INSTANT_TIME: NOW, HeaderKey.SCHEMA: schema}


def test_a_native_log_says_the_same_in_its_footer():
    storage = memory_storage()
    rewrite(storage, config(10))
    file = pq.ParquetFile(pa.BufferReader(storage.read(NATIVE)))
    texts = {k.decode(): v.decode() for k, v in file.metadata.metadata.items()}
    footer = parse_log_footer(texts, NATIVE)
    assert footer is not None
    assert (footer.kind, footer.instant) == (FooterKind.CDC, NOW)
    assert footer.schema == cdc_schema(LoggingMode.DATA_BEFORE_AFTER, arrow_to_avro(SCHEMA, "t"))


@pytest.mark.parametrize("version", [9, 10])
def test_a_rewrite_without_changes_has_a_log_without_records(version: int):
    """Hudi 1.2.0 refuses a rewritten base file that has none: There should be a cdc log file."""
    storage = memory_storage()
    base = base_file(storage)
    log = open_change_log(target(storage, config(version)), base, MergeRule())
    assert log is not None
    log.put(carried(storage, base))
    [path] = log.close()
    assert cdc_records(storage, path) == []


def test_without_an_old_base_file_all_rows_are_new():
    storage = memory_storage()
    log = open_change_log(target(storage), None, MergeRule())
    assert log is not None
    log.put(stamped(("a", OLD, 1), ("b", OLD, 2)))
    [path] = log.close()
    assert [record["op"] for record in cdc_records(storage, path)] == ["i", "i"]


def test_a_table_without_change_data_has_no_log():
    storage = memory_storage()
    assert open_change_log(target(storage, config(enabled="false")), None, MergeRule()) is None


def test_many_changes_are_several_blocks_of_one_log():
    storage = memory_storage()
    log = ChangeLog(target(storage), LoggingMode.DATA_BEFORE, [], block_bytes=1)
    for key in "abc":
        log.put(stamped((key, None, 1)))
    assert list(log.close()) == [INLINE]
    blocks = cdc_blocks(storage.read(INLINE))
    assert [[record["record_key"] for record in records] for _, records in blocks] == [
        ["a"],
        ["b"],
        ["c"],
    ]


@pytest.mark.parametrize("twice", [False, True])
def test_an_old_base_file_in_any_order_is_compared_unless_a_key_comes_twice(twice: bool):
    storage = memory_storage()
    name = BaseFileName(FILE_ID, "0-0-0", OLD)
    base = BaseFile("p", name, 0)
    rows = stamped(("c", OLD, 3), ("a", OLD, 2), *([("a", OLD, 1)] if twice else ()))
    with storage.open_write(base.path) as sink:
        pq.write_table(pa.Table.from_batches([rows]), sink)
    log = open_change_log(target(storage), base, MergeRule())
    assert log is not None
    if twice:
        with pytest.raises(UnsupportedError, match="key 'a' occurs more than once"):
            log.put(stamped(("a", None, 9)))
        log.abort()
        return
    log.put(stamped(("a", None, 9)))
    [path] = log.close()
    assert [(r["op"], r["before"]["v"]) for r in cdc_records(storage, path)] == [
        ("u", 2),
        ("d", 3),
    ]


@pytest.mark.parametrize("version", [9, 10])
def test_what_is_not_closed_leaves_nothing(version: int):
    storage = memory_storage()
    log = open_change_log(target(storage, config(version)), None, MergeRule())
    assert log is not None

    def fail() -> None:
        with log:
            log.put(stamped(("a", None, 1)))
            raise UnavailableError("no disk")

    with pytest.raises(UnavailableError):
        fail()
    assert cdc_paths(storage) == []


@pytest.mark.parametrize("version", [9, 10])
def test_a_log_that_fails_at_its_end_leaves_nothing(version: int):
    work = Work.of({}, lambda given: rewrite(given, config(version)))
    for storage, what in work.crashes(work.points("before")):
        assert cdc_paths(storage) == [], what
