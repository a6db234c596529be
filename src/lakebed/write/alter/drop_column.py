"""Drops a column, in a commit that writes no data file and records the remaining columns."""

import json

import pyarrow as pa

from lakebed.commit.transaction import Transaction, begin
from lakebed.errors import InvalidError, SchemaError
from lakebed.format.avro.avro_schema import arrow_to_avro
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.index.secondary.definition import parse_definitions
from lakebed.model.spelling import nearest
from lakebed.table.config.properties_file import update_properties
from lakebed.table.config.table_config import DROPPED_COLUMNS, TableConfig
from lakebed.write.pipeline import WriteTarget
from lakebed.write.spec.commit_summary import Commit
from lakebed.write.spec.operation import ALTER_SCHEMA


def execute_drop_column(target: WriteTarget, name: str) -> tuple[Commit, TableConfig]:
    """Remove a column from the table's schema; files keep it until they are rewritten."""
    with begin(target.storage, target.clock, target.commits) as transaction:
        config, known = transaction.config, transaction.snapshot.schema
        check_droppable(config, known, name)
        kept = pa.schema([field for field in known if field.name != name])
        metadata = CommitMetadata.of(ALTER_SCHEMA.name, arrow_to_avro(kept, config.name))
        # The dropped name is recorded first: otherwise another column could silently take it.
        _note_dropped(transaction, known, name)
        completion = transaction.commit(metadata, ())
    return Commit.of(transaction.instant, completion, metadata), transaction.config


def check_droppable(config: TableConfig, known: pa.Schema, name: str) -> None:
    """Raise an error for a column that does not exist, or that the table or an index needs."""
    if name not in known.names:
        raise SchemaError(
            f"table {config.name!r}: no column {name!r}{nearest(name, known.names)}; it has "
            f"{', '.join(known.names) or 'none yet'}"
        )
    for index in parse_definitions(config.properties):
        if name in {column.partition(".")[0] for column in index.columns} | set(index.columns):
            raise InvalidError(
                f"table {config.name!r}: column {name!r} is in the index {index.name!r}; call "
                f"drop_index({index.name!r}) first"
            )
    marker = (config.delete_marker or ("", ""))[:1]
    for part, fields in {
        "the record key": config.record_key_fields,
        "the partition": config.partition_fields,
        "the ordering": config.ordering_fields,
        "the ordering of a column group": [g.ordering for g in config.column_groups if g.ordering],
        "the delete marker": marker,
    }.items():
        if name in fields:
            raise InvalidError(
                f"table {config.name!r}: column {name!r} is part of {part} and cannot be dropped; write "
                "the rows to a new table instead"
            )
    for group in config.column_groups:
        if {name} == {*group.columns} & {*known.names}:
            raise InvalidError(
                f"table {config.name!r}: column {name!r} is the only one of the column group "
                f"{group.name!r}; call drop_column_group({group.name!r})"
            )
    if len(known) == 1:
        raise InvalidError(f"table {config.name!r}: column {name!r} is its only column")


def _note_dropped(transaction: Transaction, known: pa.Schema, name: str) -> None:
    with transaction.locked() as hold:
        # An index on the column may have been created since.
        check_droppable(hold.config, known, name)
        noted = dict.fromkeys((*hold.config.dropped_columns, name))
        transaction.config = update_properties(
            transaction.storage, {DROPPED_COLUMNS: json.dumps(list(noted))}
        )
