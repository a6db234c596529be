"""Find the rows that a caller identifies by key, for deletes and lookups."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from lakebed.api.given.arguments import key_schema
from lakebed.api.given.keys import keys_to_table
from lakebed.errors import InvalidError
from lakebed.index.secondary.definition import resolve_column
from lakebed.merge.rule import Merger
from lakebed.scan.index_choice import Indexes
from lakebed.scan.lookup import look_up, plan_lookup
from lakebed.scan.scan import Scan, plan_scan
from lakebed.scan.value_lookup import leading_columns
from lakebed.table.config.table_config import TableConfig
from lakebed.table.read.source_cache import SourceCache
from lakebed.table.snapshot import Snapshot
from lakebed.write.pipeline import Source
from lakebed.write.spec.columns import delete_fields

_BATCH_ROWS = 65_536


def split_routed(
    keys: Sequence[object], fields: Iterable[str]
) -> tuple[list[object], list[object]]:
    """Split keys into those that have all `fields` and those that lack some."""
    wanted = set(fields)
    placed: list[object] = []
    bare: list[object] = []
    for key in keys:
        names_all = isinstance(key, Mapping) and key.keys() >= wanted
        (placed if names_all else bare).append(key)
    return placed, bare


def split_valued(
    keys: Sequence[object], fields: Sequence[str]
) -> tuple[list[object], list[Mapping[str, object]]]:
    """Split keys into those with all key columns `fields`, and dicts that lack some of them."""
    named: list[object] = []
    valued: list[Mapping[str, object]] = []
    for key in keys:
        is_other = isinstance(key, Mapping) and key and not key.keys() >= set(fields)
        (valued if is_other else named).append(key)  # type: ignore[arg-type]
    return named, valued


def value_batches(
    keys: Sequence[Mapping[str, object]],
    schema: pa.Schema,
    fields: Sequence[str],
    indexes: Indexes,
) -> list[pa.RecordBatch]:
    """Return dicts of indexed columns as batches, one for each set of columns.

    Raises InvalidError for a dict if no index starts with any of its columns.
    """
    by_columns: dict[tuple[str, ...], list[Mapping[str, object]]] = {}
    for key in keys:
        by_columns.setdefault(tuple(sorted(map(str, key))), []).append(key)
    batches: list[pa.RecordBatch] = []
    for names, given in by_columns.items():
        if not any(leading_columns(index.definition, names) for index in indexes):
            lacking = next(field for field in fields if field not in names)
            raise InvalidError(
                f"key {given[0]!r}: key column {lacking!r} is missing, and no index starts with "
                f"{' or '.join(names)}; add the key columns, or call create_index()"
            )
        found = [resolve_column(name, schema, "lookup") for name in names]
        kinds = pa.schema(
            [pa.field(name, kind) for name, (_, kind) in zip(names, found, strict=True)]
        )
        batches += keys_to_table(given, kinds).combine_chunks().to_batches()
    return batches


def named_rows(
    snapshot: Snapshot,
    keys: Sequence[object],
    merger: Merger | None,
    source_of: Callable[[pa.Table], Source],
) -> Source:
    """Return a source of the keys to delete.

    A key without a partition is deleted in every partition that holds it; such keys are looked up
    when the write starts. `source_of` returns the source of an in-memory table.
    """
    config, schema = snapshot.config, snapshot.schema
    wanted = key_schema(schema, dict.fromkeys(delete_fields(config)))
    key_fields = config.record_key_fields
    partition = [name for name in wanted.names if name not in key_fields]
    if partition:
        with_place, without = split_routed(keys, partition)
    else:
        with_place, without = list(keys), []
    placed = keys_to_table(with_place, wanted)
    bare = keys_to_table(without, key_schema(schema, key_fields))

    def rows_of(now: Snapshot) -> pa.Table:
        if not without:
            return placed
        found = _look_up(now, bare, merger).select(wanted.names)
        return pa.concat_tables([placed, found.cast(wanted)])

    def count(now: Snapshot) -> int:
        found = [_look_up(now, given, merger) for given in (placed, bare)]
        names = _names(config)
        return len(pa.concat_tables(found).group_by(names).aggregate([]))

    return Source(
        wanted,
        lambda spec, now: source_of(rows_of(now)).stage(spec, now),
        # Until the write starts, another writer may add the key to another partition.
        reads_table=bool(without),
        repeatable=True,
        found=count,
    )


def _look_up(snapshot: Snapshot, keys: pa.Table, merger: Merger | None) -> pa.Table:
    """Return the key and partition columns of the rows with `keys`."""
    names, cache = _names(snapshot.config), SourceCache()
    empty = plan_scan(snapshot.within(()), names, None, merger).empty()

    def plan(within: Snapshot) -> Scan:
        return plan_scan(within, names, None, merger)

    batches = keys.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS)
    found = [
        look_up(plan_lookup(snapshot, batch, plan, cache), batch, cache)
        for batch in batches
        if batch.num_rows
    ]
    return pa.concat_tables([empty, *found])


def _names(config: TableConfig) -> list[str]:
    return list(dict.fromkeys((*config.record_key_fields, *config.partition_fields)))
