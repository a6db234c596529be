"""Adds columns and widens a column, in a commit that writes no data file."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from lakebed.commit.transaction import Transaction, begin
from lakebed.errors import SchemaError, UnsupportedError
from lakebed.format.avro.avro_schema import arrow_to_avro
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.spelling import nearest
from lakebed.table.config.schema import evolve, find_field, normalise, widens
from lakebed.table.config.table_config import TableConfig
from lakebed.write.pipeline import WriteTarget
from lakebed.write.spec.columns import check_not_dropped, check_spelling
from lakebed.write.spec.commit_summary import Commit
from lakebed.write.spec.operation import ALTER_SCHEMA


def execute_add_columns(
    target: WriteTarget, fields: Sequence[pa.Field]
) -> tuple[Commit, TableConfig]:
    """Append nullable columns, which are null in all existing rows.

    In a table with column groups they belong to the default group.
    """

    def changed(config: TableConfig, known: pa.Schema) -> pa.Schema:
        for field in fields:
            at = find_field(list(known), field.name)
            if at is not None:
                raise SchemaError(
                    f"table {config.name!r}: cannot add column {field.name!r}: it already has "
                    f"{known.names[at]!r} ({known.field(at).type})"
                )
            if not field.nullable:
                raise SchemaError(
                    f"table {config.name!r}: new column {field.name!r} must be nullable, because "
                    "existing rows have no value for it; remove NOT NULL"
                )
        return normalise(pa.schema([*known, *fields]))

    return _execute(target, changed)


def execute_widen_column(
    target: WriteTarget, name: str, kind: pa.DataType
) -> tuple[Commit, TableConfig]:
    """Change the type of a column to a wider one, to which readers cast the values of older files."""

    def changed(config: TableConfig, known: pa.Schema) -> pa.Schema:
        if name not in known.names:
            raise SchemaError(
                f"table {config.name!r}: no column {name!r}{nearest(name, known.names)}; it has "
                f"{', '.join(known.names)}"
            )
        if config.column_groups:
            raise UnsupportedError(
                f"table {config.name!r}: cannot widen column {name!r}: the types of a table with "
                "column groups do not change; add a column of the wider type"
            )
        old = known.field(name)
        new = normalise(pa.schema([pa.field(name, kind)])).field(0).type
        if old.type != new and not widens(old.type, new) and not pa.types.is_nested(new):
            raise SchemaError(
                f"table {config.name!r}: cannot change column {name!r} from {old.type} to {new}: "
                "only wider types can be read from older files without loss"
            )
        only = evolve(pa.schema([old.with_nullable(True)]), pa.schema([pa.field(name, new)]))
        wider = only.field(0).with_nullable(old.nullable)
        return pa.schema([wider if field.name == name else field for field in known])

    return _execute(target, changed)


def _execute(
    target: WriteTarget, changed: Callable[[TableConfig, pa.Schema], pa.Schema]
) -> tuple[Commit, TableConfig]:
    with begin(target.storage, target.clock, target.commits) as transaction:
        config, known = transaction.config, transaction.snapshot.schema
        schema = changed(config, known)
        check_not_dropped(config, known, schema)
        check_spelling(config, known, schema)
        return _commit(transaction, schema)


def _commit(transaction: Transaction, schema: pa.Schema) -> tuple[Commit, TableConfig]:
    metadata = CommitMetadata.of(ALTER_SCHEMA.name, arrow_to_avro(schema, transaction.config.name))
    completion = transaction.commit(metadata, ())
    return Commit.of(transaction.instant, completion, metadata), transaction.config
