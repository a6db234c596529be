"""One write of `format("lakebed")`: open or create the table, then commit the staged rows.

Planning, staging and committing may run in different processes; a `Saving` is pickled between
them.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from lakebed.api.create import default_name, table_properties
from lakebed.api.create_checks import GENERATOR
from lakebed.api.engines import Engines
from lakebed.api.opening import make_table, open_as
from lakebed.api.option_conflicts import check_settings, check_stored
from lakebed.api.table import Table
from lakebed.commit.drop import replace_table
from lakebed.commit.stream_batches import StreamBatch
from lakebed.errors import ExistsError, NotFoundError, OptionError, UnsupportedError
from lakebed.format.names.meta_columns import COMMIT_TIME, META_COLUMNS, RECORD_KEY
from lakebed.format.names.record_key import KeyGenerator
from lakebed.index.requested import named_index
from lakebed.model.clock import SystemClock
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.model.options import table as table_options
from lakebed.model.options.data_source import OPERATION
from lakebed.model.options.hudi import METADATA_TABLE
from lakebed.model.options.registry import get_option
from lakebed.model.options.save import SaveOptions
from lakebed.storage.open import open_storage
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import load_config
from lakebed.table.config.schema import normalise
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import WriterIndex, hashes_keys, index_word
from lakebed.table.files.commit_cache import CommitCache
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import Timeline
from lakebed.write.deferred import DeferredWrite, defer_write, partitions_of
from lakebed.write.pipeline import WriteTarget
from lakebed.write.spec.commit_summary import Commit
from lakebed.write.spec.intake import Intake
from lakebed.write.spec.operation import (
    BULK_INSERT,
    DELETE,
    DELETE_PARTITION,
    INSERT,
    INSERT_OVERWRITE,
    INSERT_OVERWRITE_TABLE,
    OVERWRITE,
    UPSERT,
    Operation,
)
from lakebed.write.staging import Segment

log = logging.getLogger(__name__)

_OPERATIONS: Final = {
    operation.name.lower(): operation
    for operation in (
        UPSERT,
        INSERT,
        BULK_INSERT,
        DELETE,
        INSERT_OVERWRITE,
        INSERT_OVERWRITE_TABLE,
        DELETE_PARTITION,
    )
}


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The result of one task: the runs that it wrote, or the partitions of its rows.

    `was_read` is true if a row has a commit time, which means that it was read from a table.
    """

    segments: tuple[Segment, ...]
    partitions: frozenset[str]
    was_read: bool = False


@dataclass(frozen=True, slots=True)
class Saving:
    """A planned write; pickled to the tasks and to the process that commits."""

    options: SaveOptions
    operation: Operation
    config: TableConfig
    # None if the write only deletes partitions.
    deferred: DeferredWrite | None = None
    # The properties of the table that replaces the old one after the rows are staged.
    remake: Mapping[str, str] | None = None
    # Whether the rows have all meta columns followed by the table's, like a view of the table.
    fits_view: bool = False

    def stage(self, batches: Iterable[pa.RecordBatch], task: TaskId) -> StagedRows:
        """Stage the rows of one task."""
        if self.deferred is None:
            named = bool(self.options.partitions_to_delete)
            return StagedRows((), frozenset() if named else partitions_of(batches, self.config))
        was_read = False

        def kept() -> Iterator[pa.RecordBatch]:
            nonlocal was_read
            for batch in batches:
                if COMMIT_TIME in batch.schema.names:
                    was_read |= batch.column(COMMIT_TIME).null_count < batch.num_rows
                yield _without_meta(batch, self.config)

        segments = tuple(self.deferred.stage(kept(), task))
        return StagedRows(segments, frozenset(), was_read)

    def finish(
        self, staged: Iterable[StagedRows], batch: StreamBatch | None = None
    ) -> Commit | None:
        """Commit the staged rows; return None if there was nothing to delete.

        Rows that are the `batch` of a stream are committed only once, and not if there are none.
        """
        parts = list(staged)
        if self.fits_view and any(p.segments for p in parts) and not any(p.was_read for p in parts):
            raise _written_through_view(self.options.path)
        if self.remake is not None:
            storage = open_storage(self.options.path, self.options.storage_options)
            replace_table(storage, SystemClock(), self.remake)
        table = self.open()
        if self.deferred is None:
            found = {partition for part in parts for partition in part.partitions}
            named = self.options.partitions_to_delete or tuple(sorted(found))
            return table.delete_there(named) if named else None
        segments = [segment for part in parts for segment in part.segments]
        commit = table.write(self.operation, self.deferred, segments, batch)
        self.deferred.delete_all()
        return commit

    def give_up(self) -> None:
        """Delete the staged files."""
        if self.deferred is not None:
            self.deferred.delete()

    def open(self) -> "_StagedTable":
        """Open the table that the write was planned for."""
        properties = {METADATA_TABLE.name: "false"} if self.options.gives_up_indexes else None
        return open_as(
            _StagedTable, None, self.options.path, self.options.storage_options, properties
        )


class _StagedTable(Table):
    """A table for writes whose rows other processes have staged."""

    def defer(
        self,
        operation: Operation,
        incoming: pa.Schema,
        intake: Intake,
        named: WriterIndex | None,
        owner: str,
    ) -> DeferredWrite:
        """Plan a write, so that tasks can stage its rows before it starts."""
        self._check_writable()
        snapshot = self._snapshot(None)
        return defer_write(self._target(), snapshot, operation, incoming, intake, named, owner)

    def delete_there(self, partitions: Sequence[str]) -> Commit | None:
        """Delete the given partitions; return None if none of them exists.

        A partition that does not exist is ignored, as in Hudi.
        """
        paths = self._partition_paths(partitions)
        return self._delete_partitions(lambda there: [path for path in there if path in paths])

    def write(
        self,
        operation: Operation,
        deferred: DeferredWrite,
        segments: Iterable[Segment],
        batch: StreamBatch | None = None,
    ) -> Commit | None:
        """Write the rows that were staged under the plan `deferred`."""
        source = deferred.source(segments)
        if batch is not None:
            return self._execute_once(batch, operation, source, deferred.named)
        return self._execute(operation, source, deferred.named)


def begin_saving(
    given: Mapping[str, str],
    incoming: pa.Schema,
    overwrite: bool,
    storage: Storage | None = None,
    owner: str = "",
) -> Saving:
    """Plan a write: create the table if it does not exist, and determine how tasks stage rows.

    In overwrite mode, a table that contradicts the options is replaced after all rows are staged.
    `owner` identifies the stream that the rows are from.
    """
    options, lines = SaveOptions.parse(given)
    for line in lines:
        log.info(line)
    rows = pa.schema([f for f in incoming if f.name not in META_COLUMNS])
    brings_keys = RECORD_KEY in incoming.names
    storage = storage or open_storage(options.path, options.storage_options)
    if not _exists(storage) and _create(storage, options, rows):
        replaces, changes = False, {}
    else:
        replaces = overwrite
        try:
            changes = check_stored(load_config(storage), options)
        except OptionError:
            if not overwrite:
                raise
            return _remade(storage, options, rows, brings_keys)
    config = load_config(storage)
    operation = _operation(options, config, brings_keys, replaces=replaces)
    saving = Saving(options, operation, config)
    table = saving.open()
    meta, others = incoming.names[: len(META_COLUMNS)], incoming.names[len(META_COLUMNS) :]
    fits = meta == list(META_COLUMNS) and set(others) <= set(table.schema.names)
    saving = replace(saving, fits_view=fits and config.has_meta_columns)
    if changes:
        table.set_properties(changes)
    if operation is DELETE_PARTITION:
        return saving
    named, buckets = None, table_options.BUCKETS.value(options.properties) or None
    if config.index is None and table_options.INDEX_TYPE.name in options.properties:
        named = named_index(config, _index_word(options.properties), buckets)
    elif config.index is not None and not config.index.is_settled and buckets is not None:
        named = named_index(config, "bucket", buckets)
    deferred = table.defer(operation, rows, Intake(evolve=options.merge_schema), named, owner)
    return replace(saving, deferred=replace(deferred, onto_nothing=overwrite and not replaces))


def _written_through_view(path: str) -> UnsupportedError:
    """Return the error for INSERT INTO a view, recognized by meta columns that are all null."""
    return UnsupportedError(
        f"cannot insert into a view of {path}: Spark keeps the view's first snapshot, so "
        'new rows would be missing. Write with df.write.format("lakebed").mode("append").save('
        "path) and load the view again, or register a table by CREATE TABLE t (<columns>) "
        "USING lakebed and name the path in each statement: t WITH (path='...')"
    )


def _remade(storage: Storage, options: SaveOptions, rows: pa.Schema, brings_keys: bool) -> Saving:
    """Plan a write whose table replaces the one at the same path."""
    properties = _settled(storage, options, rows)
    config = TableConfig.parse(properties, "the options of this write")
    # Reject a delete: the new table has no rows.
    _operation(options, config, brings_keys, replaces=True)
    operation = _operation(options, config, brings_keys, replaces=False)
    commits = CommitCache(ActiveTimeline(storage, config.timeline_path), config.history_path)
    target = WriteTarget(storage, config, SystemClock(), commits, LocalExecutor())
    snapshot = Snapshot(storage, config, Timeline(), commits)
    deferred = replace(
        defer_write(target, snapshot, operation, rows, Intake(evolve=True)), onto_nothing=True
    )
    return Saving(options, operation, config, deferred, properties)


def _exists(storage: Storage) -> bool:
    try:
        load_config(storage)
    except NotFoundError:
        return False
    return True


def _operation(
    options: SaveOptions, config: TableConfig, brings_keys: bool, *, replaces: bool
) -> Operation:
    """Choose the operation as Hudi does: rows without a key can only be inserted."""
    asked = options.operation
    if asked is None:
        keyed = bool(config.record_key_fields) or brings_keys
        asked = "upsert" if keyed else "bulk_insert"
    operation = _OPERATIONS[asked]
    if not replaces:
        return operation
    if operation in (DELETE, DELETE_PARTITION):
        raise OptionError(f'option {OPERATION.name}={asked}: use mode("append"), not "overwrite"')
    return OVERWRITE  # also for insert_overwrite: Hudi deletes the whole table in this mode


def _create(storage: Storage, options: SaveOptions, rows: pa.Schema) -> bool:
    """Create the table; return False if another writer created it first."""
    if options.operation in ("delete", "delete_partition"):
        raise NotFoundError(f"{storage.url}: there is no table here to delete from")
    settled = _settled(storage, options, rows)
    try:
        make_table(storage, settled, Engines(None), SystemClock())
    except ExistsError:
        return False
    return True


def _settled(storage: Storage, options: SaveOptions, rows: pa.Schema) -> dict[str, str]:
    """Return the complete properties of a new table."""
    given = dict(options.properties)
    named = given.pop(table_options.GENERATOR_CLASS.name, None)
    if named is not None:
        given.setdefault(GENERATOR, KeyGenerator.parse(named).value)
    key = table_options.RECORD_KEY.value(given)
    index = _index_word(given)
    if index == "global_record":
        # Hudi's default, unlike that of its other global indexes.
        given.setdefault(table_options.UPDATE_PARTITION.name, "false")
    settled = table_properties(
        schema=normalise(rows),
        key=key,
        ordering=table_options.ORDERING.value(given),
        partition_by=table_options.PARTITION.value(given),
        name=given.get(table_options.NAME.name) or default_name(storage.url),
        table_type=given.get(table_options.TYPE.name, "COPY_ON_WRITE"),
        index=index,
        buckets=table_options.BUCKETS.value(given) or None if hashes_keys(index) else None,
        layout=given.get(table_options.LAYOUT.name, "default"),
        table_version=int(given[version])
        if (version := table_options.VERSION.name) in given
        else None,
        column_groups={},
        properties={k: v for k, v in given.items() if not get_option(k).keyword},
        makes_keys=not key,
        spelled={get_option(stored).keyword: name for stored, name in options.given.items()},
    )
    check_settings(storage, TableConfig.parse(settled, "the options of this write"))
    return settled


def _without_meta(batch: pa.RecordBatch, config: TableConfig) -> pa.RecordBatch:
    """Drop the meta columns, except the record key if the table has no key columns."""
    kept = {RECORD_KEY} if not config.record_key_fields else set()
    gone = [n for n in batch.schema.names if n in META_COLUMNS and n not in kept]
    return batch.drop_columns(gone) if gone else batch


def _index_word(given: Mapping[str, str]) -> str:
    word = index_word(given.get(table_options.INDEX_TYPE.name, "SIMPLE"))
    hashing = word == "bucket" and table_options.BUCKET_ENGINE.value(given) != "SIMPLE"
    return "consistent_hashing" if hashing else word
