"""Small tables on a storage of the test's choice, and what must hold of their files."""

import io
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.api.create import table_properties
from lakebed.api.engines import Engines
from lakebed.api.opening import make_table
from lakebed.api.table import Table
from lakebed.errors import NotFoundError
from lakebed.format.avro.avro_rows.block import read_avro_block
from lakebed.format.files.footer import FOOTER_IS_ORDERED
from lakebed.format.logs.delete_columns import decode_deletes
from lakebed.format.logs.log_block import BlockType, HeaderKey, LogBlock
from lakebed.format.logs.native_footer import parse_log_footer
from lakebed.format.logs.order_mark import is_marked_ordered
from lakebed.format.names.bucket_hash import bucket_of_file_id, key_buckets
from lakebed.format.names.data_names import NativeLogName, parse_data_name
from lakebed.format.names.instant_name import InstantName, State
from lakebed.format.names.meta_columns import FILE_NAME, META_COLUMNS, RECORD_KEY
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.index.kinds import strategy_of
from lakebed.index.record.entries import PLACES, place_of, read_entries
from lakebed.index.record.state import open_record_index
from lakebed.index.simple import SimpleLocator
from lakebed.model.clock import Clock, ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from lakebed.table.config.merge_mode import MergeMode
from lakebed.table.config.properties_file import load_config
from lakebed.table.config.writer_index import BucketIndex
from lakebed.table.files.file_group import LogFile
from lakebed.table.files.retention import named_files
from lakebed.table.snapshot import Snapshot, load_snapshot
from support.log_blocks import iter_blocks

SCHEMA = pa.schema(
    [("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), ("dt", pa.string())]
)
Key = tuple[str, str]
Rows = dict[Key, dict[str, Any]]


def one_thread() -> Engines:
    """Return engines that run tasks one after the other, so that a run can be repeated."""
    engines = Engines(None)
    engines.main.executor = LocalExecutor(1)
    return engines


def settle(schema: pa.Schema = SCHEMA, **changes: Any) -> dict[str, str]:
    """Return the properties of a table, as `create_table` settles them."""
    arguments: dict[str, Any] = {
        "schema": schema,
        "key": ("id",),
        "ordering": (),
        "partition_by": ("dt",),
        "name": "t",
        "table_type": "COPY_ON_WRITE",
        "index": "bucket",
        "buckets": 2,
        "layout": "lsm_tree",
        "table_version": 9,
        "column_groups": {},
        "properties": {},
    }
    return table_properties(**{**arguments, **changes})


def make(
    storage: Storage | None = None,
    clock: Clock | None = None,
    schema: pa.Schema = SCHEMA,
    **changes: Any,
) -> Table:
    """Make a table in memory, or on `storage`."""
    storage = memory_storage() if storage is None else storage
    return make_table(
        storage, settle(schema, **changes), one_thread(), clock or ManualClock(step_ms=1)
    )


def reopen(storage: Storage, clock: Clock | None = None) -> Table:
    """Open what lies on `storage`, as another process would."""
    return Table(storage, load_config(storage), one_thread(), clock or ManualClock(step_ms=1))


def batch(*rows: tuple[str, int, int, str]) -> pa.Table:
    """Return rows of SCHEMA."""
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA
    )


def rows_of(table: Table, as_of: str | None = None) -> Rows:
    """Read a table by partition and key; a key that comes twice is an error."""
    schema = load_snapshot(table._storage, table.config, as_of).schema
    columns = [*META_COLUMNS, *schema.names]
    found: Rows = {}
    for row in table.read(columns=columns, as_of=as_of).read_all().to_pylist():
        key = (row["_hoodie_partition_path"], row[RECORD_KEY])
        assert key not in found, f"{key} occurs twice"
        found[key] = row
    return found


def user_rows(table: Table, as_of: str | None = None) -> Rows:
    """Read a table without its meta columns."""
    return {
        key: {name: value for name, value in row.items() if name not in META_COLUMNS}
        for key, row in rows_of(table, as_of).items()
    }


def contents(storage: Storage) -> dict[str, bytes]:
    """Return every object of a storage."""
    return {entry.path: storage.read(entry.path) for entry in storage.list()}


def copy_of(objects: Mapping[str, bytes]) -> Storage:
    """Return a new memory that holds `objects`."""
    storage = memory_storage()
    for path, data in objects.items():
        storage.put(path, data)
    return storage


def without_locks(paths: Iterable[str]) -> set[str]:
    """Leave out lock files, which stay on purpose."""
    return {path for path in paths if not path.startswith(".hoodie/.locks/")}


def check_no_leftovers(storage: Storage) -> None:
    """Assert that every data file is named by a commit, and that nothing is pending or temporary."""
    named, completed, pending = set(), set(), set()
    paths = [entry.path for entry in storage.list()]
    for path in paths:
        folder, _, name = path.rpartition("/")
        instant = InstantName.parse(name) if folder == ".hoodie/timeline" else None
        if instant is not None and instant.state is State.COMPLETED:
            completed.add(instant.requested)
            named.update(named_files(CommitMetadata.parse(storage.read(path), path)))
        elif instant is not None:
            pending.add(instant.requested)
        assert not path.startswith(".hoodie/.temp"), path
    assert pending <= completed, "a pending instant is left"
    for path in paths:
        if not path.startswith(".hoodie/") and parse_data_name(path.rpartition("/")[2]):
            assert path in named, f"{path} is named by no commit"


def check_files(table: Table) -> None:
    """Assert what every file of ours promises: marked as sorted, each key once, in its bucket."""
    storage, config = table._storage, load_config(table._storage)
    snapshot = load_snapshot(storage, config)
    assert config.index is not None
    for slice_ in snapshot.slices:
        runs = [run for log in slice_.log_files for run in log_runs(storage, log, table)]
        if slice_.base_file is not None:
            runs.append(base_run(storage, slice_.base_file.path))
        assert runs, slice_
        for what, keys in runs:
            raw = [key.encode() for key in keys.to_pylist()]
            assert all(low < high for low, high in itertools.pairwise(raw)), what
            if isinstance(config.index, BucketIndex):
                found = key_buckets(
                    keys,
                    config.record_key_fields,
                    config.index.hash_fields,
                    config.index.buckets,
                    composite=config.composite_key,
                )
                assert set(found.tolist()) <= {bucket_of_file_id(slice_.group.file_id)}, what

    if config.index.records_keys:
        check_record_index(snapshot)


def check_record_index(snapshot: Snapshot) -> None:
    """Assert that each key of a file group is found: the index has it, or does not claim to."""
    state = open_record_index(snapshot)
    if state.whole is None:
        return
    assert snapshot.config.index is not None
    places: dict[str, set[str]] = {}
    for run in state.runs:
        for rows in read_entries(snapshot.storage, run.path, None):
            for row in rows.to_pylist():
                found = places.setdefault(row[RECORD_KEY], set())
                found.update(row[PLACES].split("\x1e"))
    for slice_ in strategy_of(snapshot.config.index).indexed_slices(snapshot):
        if slice_.group not in state.whole:
            (source,) = SimpleLocator().key_sources(snapshot.view(), [slice_], None)
            for rows in source.open(snapshot.view()).batches:
                for key in rows.column(RECORD_KEY).to_pylist():
                    assert place_of(slice_.group) in places.get(key, ()), (key, slice_.group)


KeyRun = tuple[str, pa.StringArray]


def base_run(storage: Storage, path: str) -> KeyRun:
    """Return the keys of a base file."""
    file = pq.ParquetFile(io.BytesIO(storage.read(path)))
    assert _marks(file)[FOOTER_IS_ORDERED] == "true", path
    rows = file.read([RECORD_KEY, FILE_NAME])
    assert set(rows.column(FILE_NAME).to_pylist()) <= {path.rpartition("/")[2]}
    return path, rows.column(RECORD_KEY).combine_chunks()


def log_runs(storage: Storage, log: LogFile, table: Table) -> list[KeyRun]:
    """Return the keys of a log: of its one run, or of the run that each block is."""
    data = storage.read(log.path)
    if isinstance(log.name, NativeLogName):
        file = pq.ParquetFile(io.BytesIO(data))
        footer = parse_log_footer(_marks(file), log.path)
        assert footer is not None
        assert footer.is_ordered, log.path
        assert footer.instant == log.name.instant
        return [(log.path, file.read([RECORD_KEY]).column(0).combine_chunks())]
    runs = []
    for block in iter_blocks(data, log.path):
        assert isinstance(block, LogBlock), log.path
        what = f"{log.path}: {block.type}"
        assert block.headers[HeaderKey.INSTANT_TIME] == log.name.instant
        if block.type is BlockType.DELETE:
            assert is_marked_ordered(block.headers[HeaderKey.SCHEMA]), what
            config, schema = table.config, table.schema
            ordered = config.merge_mode is MergeMode.EVENT_TIME_ORDERING
            names = config.ordering_fields if ordered else ()
            types = [schema.field(name).type for name in names]
            runs.append((what, decode_deletes(block.content, types, what).keys))
        elif block.type is BlockType.AVRO_DATA:
            schema_text = block.headers[HeaderKey.SCHEMA]
            assert is_marked_ordered(schema_text), what
            runs.append((what, _avro_keys(block.content, schema_text, what)))
        else:
            assert block.type is BlockType.PARQUET_DATA
            file = pq.ParquetFile(io.BytesIO(block.content))
            assert _marks(file)[FOOTER_IS_ORDERED] == "true", what
            runs.append((what, file.read([RECORD_KEY]).column(0).combine_chunks()))
    assert runs, log.path
    return runs


def _avro_keys(content: bytes, schema_text: str, what: str) -> pa.Array:
    batches = read_avro_block(
        lambda at, length: content[at : at + length],
        len(content),
        schema_text,
        [RECORD_KEY],
        what=what,
    )
    return pa.concat_arrays([batch.column(0) for batch in batches])


def _marks(file: pq.ParquetFile) -> dict[str, str]:
    found = file.schema_arrow.metadata or {}
    return {key.decode(): value.decode() for key, value in found.items()}


def exists(storage: Storage) -> bool:
    """Return whether there is a table."""
    try:
        load_config(storage)
    except NotFoundError:
        return False
    return True
