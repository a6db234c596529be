"""Adds and drops column groups of an existing table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.commit.fence import Fence
from lakebed.commit.transaction import Transaction, begin
from lakebed.errors import ConflictError, ExistsError, InvalidError, NotFoundError, SchemaError
from lakebed.format.avro.avro_schema import arrow_to_avro
from lakebed.format.names.meta_columns import COMMIT_SEQNO, COMMIT_TIME, OUR_PREFIX, RECORD_KEY
from lakebed.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakebed.groups.definition import ColumnGroup, encode_groups
from lakebed.groups.rules import check_apart, check_default, nullable_schema, settle_group
from lakebed.index.secondary.definition import parse_definitions
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import BARRIER, FLAGS, Run
from lakebed.merge.window import merge_runs
from lakebed.model.executor import TaskId
from lakebed.storage.storage import Storage
from lakebed.table.config.column_groups import check_grouped, check_groups_version
from lakebed.table.config.properties_file import load_config, update_properties
from lakebed.table.config.schema import find_field, normalise
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.damage import check_whole
from lakebed.table.files.file_group import DataFile, FileSlice
from lakebed.table.read.base_file import read_footer
from lakebed.table.read.slice_reader import read_slice
from lakebed.table.snapshot import Snapshot
from lakebed.table.store.log_writer import LogRunWriter, NewLog
from lakebed.table.view import TableView
from lakebed.write.log_runs import log_stat
from lakebed.write.pipeline import WriteTarget
from lakebed.write.spec.commit_summary import Commit
from lakebed.write.spec.operation import ALTER_SCHEMA

_ELSEWHERE = f"{OUR_PREFIX}elsewhere"


def execute_add_group(
    target: WriteTarget, group: ColumnGroup, fields: Sequence[pa.Field]
) -> tuple[Commit, TableConfig]:
    """Add a column group; `fields` are those of its columns that are new."""
    with begin(target.storage, target.clock, target.commits) as transaction:
        config, snapshot = transaction.config, transaction.snapshot
        check_groups_version(config)
        _check_free(snapshot, group.name)
        schema = _with_fields(snapshot.schema, fields, group.name)
        key, partition = config.record_key_fields, config.partition_fields
        new = settle_group(group, schema, key, partition, config.ordering_fields)
        new = replace(new, since=transaction.instant.requested)
        there = snapshot.column_groups.groups
        check_apart([*there, new])
        check_default([*there, new], schema, key, partition, config.ordering_fields)
        moved = [name for name in new.columns if name in snapshot.schema.names]
        _check_not_carried(target, snapshot, moved)
        check_grouped(replace(config, column_groups=(*config.column_groups, new)))
        _store(transaction, new)
        schema = nullable_schema(schema, key, partition)
        metadata = CommitMetadata.of(ALTER_SCHEMA.name, arrow_to_avro(schema, config.name))
        completion = transaction.commit(metadata, ())
    return Commit.of(transaction.instant, completion, metadata), transaction.config


def execute_drop_group(target: WriteTarget, name: str) -> tuple[Commit, TableConfig]:
    """Drop a column group: its columns are hidden, and cleaning deletes its files later.

    Keys that only this group holds are written to the default group by the same commit.
    """
    with begin(target.storage, target.clock, target.commits) as transaction:
        config, snapshot = transaction.config, transaction.snapshot
        group = snapshot.column_groups.find(name)
        if group is None:
            known = ", ".join(one.name for one in snapshot.column_groups.groups) or "none"
            raise NotFoundError(
                f"table {config.name!r}: no column group {name!r}; there are: {known}"
            )
        _check_not_indexed(config, group)
        check_whole(snapshot.slices)
        kept = pa.schema([f for f in snapshot.schema if f.name not in group.columns])
        view = replace(snapshot.view(), schema=kept, schema_text=None)
        moves = [
            _Move(snapshot.view(), view, name, slice_, transaction.fence)
            for slice_ in snapshot.slices
            if name in slice_.by_group
        ]
        stats = [s for of in target.executor.run(_move_keys, moves, "move keys") for s in of]
        dropped = replace(group, until=transaction.instant.requested)
        _store(transaction, dropped)
        metadata = CommitMetadata.of(ALTER_SCHEMA.name, arrow_to_avro(kept, config.name), stats)
        completion = transaction.commit(
            metadata,
            metadata.partition_to_write_stats,
            reads=lambda written: written.column_group == name,
        )
    return Commit.of(transaction.instant, completion, metadata), transaction.config


def _check_free(snapshot: Snapshot, name: str) -> None:
    """Raise an error if a name is in use, or was: files of a dropped group may still exist."""
    table = snapshot.config.name
    for group in snapshot.config.column_groups:
        if group.name.lower() != name.lower():
            continue
        if snapshot.column_groups.find(group.name) is not None:
            raise ExistsError(f"table {table!r}: column group {group.name!r} already exists")
        if group.until is not None:
            raise InvalidError(
                f"table {table!r}: the column group {group.name!r} was dropped, and its name cannot "
                "be reused; choose another name"
            )


def _with_fields(known: pa.Schema, fields: Sequence[pa.Field], name: str) -> pa.Schema:
    for field in fields:
        at = find_field(list(known), field.name)
        if at is not None:
            raise SchemaError(
                f"column group {name!r}: the table already has the column {known.names[at]!r}; give "
                "new columns with their types, or the names of columns without types"
            )
    return pa.schema([*known, *(normalise(pa.schema(fields)) if fields else ())])


def _check_not_carried(target: WriteTarget, snapshot: Snapshot, columns: Sequence[str]) -> None:
    """Raise InvalidError for a column that a file of the default group holds: it cannot move."""
    owned = {name for group in snapshot.column_groups.groups for name in group.columns}
    # A column of another group is reported as one of two groups.
    asked = frozenset(columns) - owned
    if not asked:
        return
    footers = [
        _Footer(snapshot.storage, file, asked)
        for file in snapshot.files
        if not file.name.column_group
    ]
    found = [one for of in target.executor.run(_carried, footers, "read footers") for one in of]
    if found:
        name, instant = min(found)
        raise InvalidError(
            f"table {snapshot.config.name!r}: column {name!r} has been written in the default "
            f"column group (by {instant}) and cannot move to another; add a new "
            "column, or write the rows to a new table with column_groups="
        )


@dataclass(frozen=True, slots=True)
class _Footer:
    """A file whose footer says which of `columns` it holds."""

    storage: Storage
    file: DataFile
    columns: frozenset[str]


def _carried(footer: _Footer, _: TaskId) -> list[tuple[str, str]]:
    """Return the columns that a file holds, each with the instant of the file."""
    held = read_footer(footer.storage, footer.file.path).schema.names
    return [(name, footer.file.name.instant) for name in held if name in footer.columns]


def _check_not_indexed(config: TableConfig, group: ColumnGroup) -> None:
    for index in parse_definitions(config.properties):
        for column in index.columns:
            if column.partition(".")[0] in group.columns:
                raise InvalidError(
                    f"table {config.name!r}: column {column!r} of the column group {group.name!r} is in "
                    f"the index {index.name!r}; call drop_index({index.name!r}) first"
                )


def _store(transaction: Transaction, changed: ColumnGroup) -> None:
    """Store a definition; it takes effect with the commit.

    Raises ConflictError if another process has changed the definitions since this one began.
    """
    began = transaction.config.column_groups
    with transaction.locked() as hold:
        now = load_config(transaction.storage).column_groups
        if _instants(now) != _instants(began):
            raise ConflictError(
                f"table {transaction.config.name!r}: another process is changing its column groups; "
                "retry"
            )
        groups = [one for one in now if one.name != changed.name]
        properties = encode_groups([*groups, changed])
        transaction.config = update_properties(transaction.storage, properties)
        hold.config = transaction.config


def _instants(groups: Sequence[ColumnGroup]) -> list[tuple[ColumnGroup, str | None, str | None]]:
    return [(group, group.since, group.until) for group in groups]


@dataclass(frozen=True, slots=True)
class _Move:
    """A file group in which a column group is dropped; `after` is the view without its columns."""

    before: TableView
    after: TableView
    name: str
    slice_: FileSlice
    fence: Fence

    @property
    def cost_bytes(self) -> int:
        return self.slice_.cost_bytes


def _move_keys(move: _Move, task: TaskId) -> list[WriteStat]:
    """Write the keys that only the dropped group holds as a log of the default group."""
    groups = move.before.column_groups
    left = replace(groups, groups=tuple(g for g in groups.groups if g.name != move.name))
    after = replace(move.after, column_groups=left)
    # If no other group is left, the view of the whole table is that of the default group.
    default = after.of_group("")
    group = move.slice_.group.whole
    stats = LogRunWriter(
        NewLog(
            storage=move.before.storage,
            config=default.config,
            group=group,
            write_token=task.write_token,
            version=1,
            next_version=2,
            instant=move.fence.instant,
            schema=default.schema,
            table_schema_text=default.avro_schema,
        )
    ).write(_bare_rows(move, after, default.schema))
    move.fence.check_written([one.path for one in stats])
    return [log_stat(move.fence.instant, group, one) for one in stats]


def _bare_rows(move: _Move, after: TableView, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    own = move.slice_.by_group[move.name]
    rest = {name: part for name, part in move.slice_.by_group.items() if name != move.name}
    shared = [name for name in columns.names if name in move.before.column_groups.shared]
    stamps = [COMMIT_TIME, COMMIT_SEQNO]
    runs = [
        Run(
            "the dropped column group",
            read_slice(
                move.before.of_group(move.name), own, [RECORD_KEY, *stamps, *shared], by_key=True
            ),
            partial=True,
        )
    ]
    if rest:
        others = replace(
            rest.get("", FileSlice(move.slice_.group, move.slice_.instant, None)),
            others=tuple(part for name, part in rest.items() if name),
        )
        there = read_slice(after, others, [RECORD_KEY], by_key=True)
        runs.append(Run("the other column groups", map(_marked, there), partial=True))
    text = pa.string()
    fields = {field.name: field.with_nullable(True) for field in columns}
    known = [pa.field(name, text) for name in (RECORD_KEY, *stamps)]
    schema = pa.schema([*known, *fields.values(), pa.field(_ELSEWHERE, pa.bool_())])
    for batch in merge_runs(runs, MergeRule(), schema):
        alone = batch.filter(pc.is_null(batch.column(_ELSEWHERE)))
        if alone.num_rows:
            # The row wins over a tombstone that the default group may hold for its key.
            flags = pa.array(np.full(alone.num_rows, BARRIER, np.uint8))
            yield alone.drop_columns([_ELSEWHERE]).append_column(pa.field(FLAGS, pa.uint8()), flags)


def _marked(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column(_ELSEWHERE, pa.repeat(pa.scalar(True), batch.num_rows))
