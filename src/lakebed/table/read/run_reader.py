"""Reads the rows of one run as batches for the merge: key, ordering, flags and columns.

Rows of a log that are marked as deleted become deletes here. A run that is not sorted is sorted,
within a memory budget.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import reduce
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.logs.delete_columns import decode_deletes
from lakebed.format.names.meta_columns import COMMIT_TIME, IS_DELETED, RECORD_KEY
from lakebed.format.names.record_key import record_keys
from lakebed.merge.arrays import int64_array
from lakebed.merge.run import COMMIT_TIME_DELETE, DELETED, FLAGS, Run
from lakebed.storage.storage import Storage
from lakebed.table.config.schema import find_field
from lakebed.table.read.avro_source import AvroSource, open_avro
from lakebed.table.read.base_file import open_columns
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.pages.paged_file import MAX_BATCH_ROWS, ParquetFooter, reading
from lakebed.table.read.pages.sorted_keys import RowSpan, check_ascending, held_rows
from lakebed.table.read.parquet_source import BUFFER_BYTES, READ_ROWS, ParquetSource, open_parquet
from lakebed.table.read.projection import find_columns, shape
from lakebed.table.read.run_source import RunKind, RunSource
from lakebed.table.read.sort_run import SORT_BYTES, sort_batches

MAX_DELETE_BYTES = 512 << 20
"""The size of the largest delete block that is read: such a block is decoded in one piece."""

_HasSchema = ParquetSource | ParquetFooter | AvroSource
_FEW_ROWS = 2_048
_OPERATION = "_hoodie_operation"
_DELETE_OPERATIONS = ("D", "-U")
KEY_FIELD = pa.field(RECORD_KEY, pa.string())
PLACE = "_lakebed_place"
_PLACE_FIELD = pa.field(PLACE, pa.int64())
_COMMIT_TIME_FIELD = pa.field(COMMIT_TIME, pa.string())


@dataclass(frozen=True, slots=True)
class VirtualKey:
    """How the record key is computed from columns, if files do not store it."""

    fields: tuple[str, ...]
    composite: bool

    def put(self, rows: pa.RecordBatch, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return `rows` with the keys that are computed from the columns of `batch`."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        keys = record_keys(columns, self.fields, self.composite)
        return rows.set_column(rows.schema.get_field_index(RECORD_KEY), KEY_FIELD, keys)


@dataclass(frozen=True, slots=True)
class Needs:
    """The columns and settings that a merge needs of each run of a slice.

    `fields` are the requested columns, `ordering` the ordering columns (none in commit-time mode);
    `delete_marker` is the column and the string that mark a row of a log as deleted. `virtual_key`
    is set for a table without meta columns, whose keys are computed from its rows. `key` is the
    column by which the runs are sorted, of strings or bytes. `found` are the rows that the key
    filter selects, by the name of the run, as far as they are known. With `places`, their rows get
    a column of numbers, which begins with the number of the run.
    """

    fields: tuple[pa.Field, ...]
    ordering: tuple[pa.Field, ...] = ()
    delete_marker: tuple[str, str] | None = None
    key_filter: KeyFilter | None = None
    buffer_bytes: int = BUFFER_BYTES
    max_rows: int = READ_ROWS
    sort_bytes: int = SORT_BYTES
    virtual_key: "VirtualKey | None" = None
    key: pa.Field = KEY_FIELD
    found: Mapping[str, tuple[RowSpan, ...]] | None = None
    places: Mapping[str, int] | None = None

    @property
    def commit_times(self) -> bool:
        """Return whether commit times are needed, including those of deletes."""
        return any(field.name == COMMIT_TIME for field in self.fields)

    @property
    def all_fields(self) -> list[pa.Field]:
        """Return the columns of a data run, the key first, each once."""
        placed = () if self.places is None else (_PLACE_FIELD,)
        named = {field.name: field for field in (self.key, *self.ordering, *self.fields, *placed)}
        return list(named.values())


def open_run(storage: Storage, source: RunSource, needs: Needs) -> Run:
    """Return a run for the merge; its file is opened when the first batch is taken."""
    batches = read_run(storage, source, needs)
    if not source.ordered:
        batches = sort_batches(
            batches, None, source.name, sort_bytes=needs.sort_bytes, key=needs.key.name
        )
    return Run(source.name, batches, source.partial, repeats=source.is_base)


def open_runs(
    storage: Storage, sources: Sequence[RunSource], needs: Needs
) -> list[tuple[RunSource, Run]]:
    """Return the runs of a slice, each with one of its sources, in replay order.

    Consecutive unsorted logs are sorted as one run.
    """
    opened: list[tuple[RunSource, Run]] = []
    held: list[RunSource] = []

    def sort_held() -> None:
        if len(held) == 1:
            opened.append((held[0], open_run(storage, held[0], needs)))
        elif held:
            what = f"{held[0].name} and {len(held) - 1} more unsorted runs"
            rows = chain.from_iterable([read_run(storage, source, needs) for source in held])
            schema = pa.schema(needs.all_fields)
            batches = sort_batches(
                rows, schema, what, sort_bytes=needs.sort_bytes, key=needs.key.name
            )
            opened.append((held[0], Run(what, batches)))
        held.clear()

    for source in sources:
        if source.ordered or source.partial or source.is_base:
            sort_held()
            opened.append((source, open_run(storage, source, needs)))
        else:
            held.append(source)
    sort_held()
    return opened


def open_data(
    storage: Storage, source: RunSource
) -> AbstractContextManager[ParquetSource] | AbstractContextManager[AvroSource]:
    """Open the rows of a data run."""
    if source.avro_schema is None:
        return open_source(storage, source)
    assert source.length is not None, "an Avro block is a part of its file"
    return open_avro(
        storage,
        source.path,
        source.name,
        offset=source.offset,
        length=source.length,
        schema_text=source.avro_schema,
    )


def open_source(storage: Storage, source: RunSource) -> AbstractContextManager[ParquetSource]:
    """Open a run whose rows are stored as Parquet."""
    return open_columns(
        storage,
        source.path,
        source.name,
        offset=source.offset,
        length=source.length,
        footer=source.footer,
        serves=source.serves,
    )


def read_run(storage: Storage, source: RunSource, needs: Needs) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a run in file order, with their flags, restricted to the key filter."""
    if _is_known_to_lack(source, needs):
        return
    if source.kind is RunKind.DATA:
        batches = _read_data(storage, source, needs)
    elif source.length is None:
        batches = _read_delete_file(storage, source, needs)
    else:
        batches = _read_delete_block(storage, source, needs)
    for batch in batches:
        # Rows with places are exactly those that were found.
        if needs.key_filter is None or (needs.places is not None and source.name in needs.places):
            kept = batch
        else:
            kept = batch.filter(needs.key_filter.mask(batch.column(needs.key.name)))
        if kept.num_rows:
            yield kept


def _is_known_to_lack(source: RunSource, needs: Needs) -> bool:
    """Return whether cached data shows that a run holds none of the requested keys."""
    if needs.found is not None and source.name in needs.found:
        return not needs.found[source.name]
    keys, footer = needs.key_filter, source.footer
    if keys is None or footer is None or needs.virtual_key is not None:
        return False
    return keys.spans(footer, source.name) == []


def _read_data(storage: Storage, source: RunSource, needs: Needs) -> Iterator[pa.RecordBatch]:
    footer = source.footer
    if needs.places is not None and footer is not None:
        held = _held_rows(footer, source, needs)
        if held is not None:
            yield from _shaped([held], footer, source, needs)
            return
    with open_data(storage, source) as file:
        columns = data_columns(file, source, needs)
        yield from _shaped(_read_batches(file, columns, source, needs), file, source, needs)


def _held_rows(
    file: ParquetFooter | ParquetSource, source: RunSource, needs: Needs
) -> pa.RecordBatch | None:
    """Return the rows that were found, from cached pages; None if these do not have them."""
    columns = data_columns(file, source, needs)
    return held_rows(file, columns, needs.key.name, (needs.found or {})[source.name])


def _shaped(
    batches: Iterable[pa.RecordBatch], file: _HasSchema, source: RunSource, needs: Needs
) -> Iterator[pa.RecordBatch]:
    """Yield the columns that a merge needs of a data run, with the flags of its rows."""
    target = pa.schema(data_fields(file, source, needs))
    markers = _markers(file, source, needs)
    place = None if needs.places is None else needs.places[source.name]
    for batch in batches:
        with reading(source.name):
            rows = shape(batch, target)
            if needs.virtual_key is not None:
                rows = needs.virtual_key.put(rows, batch)
            check_keys(rows, source.name, needs.key.name)
            if markers:
                rows = rows.append_column(FLAGS, _deleted_flags(batch, markers, needs))
                if needs.commit_times and needs.virtual_key is not None:
                    # Without meta columns only the run shows when a row was deleted.
                    at = rows.schema.get_field_index(COMMIT_TIME)
                    rows = rows.set_column(at, _COMMIT_TIME_FIELD, _repeated(source, rows))
            if place is not None:
                numbers = np.arange(place, place + rows.num_rows)
                rows = rows.append_column(_PLACE_FIELD, int64_array(numbers))
                place += rows.num_rows
        yield rows


def data_fields(file: _HasSchema, source: RunSource, needs: Needs) -> list[pa.Field]:
    """Return the fields that a data run contributes to a merge."""
    fields = [field for field in needs.all_fields if field.name != PLACE]
    if not source.partial:
        return fields
    present = list(file.schema)
    # A file without a key column is rejected later, whatever else it lacks.
    return [
        field
        for field in fields
        if field.name == needs.key.name or find_field(present, field.name) is not None
    ]


def data_columns(file: _HasSchema, source: RunSource, needs: Needs) -> list[str]:
    """Return the columns of the file that a merge reads from a data run."""
    spelled = () if needs.virtual_key is None else needs.virtual_key.fields
    found = find_columns(file.schema, data_fields(file, source, needs))
    return list(dict.fromkeys([*found, *_markers(file, source, needs), *spelled]))


def run_row_groups(
    file: ParquetSource, source: RunSource, needs: Needs, *, alone: bool = False
) -> list[int] | None:
    """Return the row groups that a merge reads from a run; None means all of them.

    With `alone`, the key column is the only one that is read.
    """
    if needs.key_filter is None or needs.virtual_key is not None:
        return None
    return needs.key_filter.row_groups(file, source.name, alone=alone)


def _read_batches(
    file: ParquetSource | AvroSource, columns: list[str], source: RunSource, needs: Needs
) -> Iterator[pa.RecordBatch]:
    keys = needs.key_filter
    if isinstance(file, AvroSource):
        yield from file.read(columns, buffer_bytes=needs.buffer_bytes, max_rows=needs.max_rows)
        return
    key = needs.key.name
    spans: Sequence[RowSpan] | None = (needs.found or {}).get(source.name)
    if spans is None and keys is not None and needs.virtual_key is None and columns != [key]:
        spans = keys.spans(file, source.name)
    if spans is not None:
        held = None if needs.places is None else held_rows(file, columns, key, spans)
        yield from file.read_spans(columns, spans) if held is None else [held]
        return
    groups = run_row_groups(file, source, needs, alone=columns == [key])
    if keys is None or not keys.is_few or not source.ordered or key not in columns:
        yield from file.read(
            columns, buffer_bytes=needs.buffer_bytes, max_rows=needs.max_rows, row_groups=groups
        )
        return
    # Small batches, and none after the last key: the rest of its row group is not decoded.
    for batch in file.read(columns, batch_rows=_FEW_ROWS, row_groups=groups):
        with reading(source.name):
            check_ascending(batch.column(key), source.name)
        yield batch
        if batch.num_rows and keys.is_behind(batch.column(key)[-1]):
            return


def _markers(file: _HasSchema, source: RunSource, needs: Needs) -> list[str]:
    """Return the columns of a log that can mark a row as deleted."""
    if source.is_base:
        return []  # Hudi never treats a row of a base file as a delete, whatever its columns
    wanted = [IS_DELETED, _OPERATION]
    if needs.delete_marker is not None:
        wanted.append(needs.delete_marker[0])
    return [name for name in dict.fromkeys(wanted) if name in file.schema.names]


def _deleted_flags(batch: pa.RecordBatch, markers: list[str], needs: Needs) -> pa.Array:
    masks = []
    for name in markers:
        column = batch.column(name)
        if name == IS_DELETED:
            mask = column.cast(pa.bool_())
        elif name == _OPERATION:
            mask = pc.is_in(column.cast(pa.string()), value_set=pa.array(_DELETE_OPERATIONS))
        else:
            assert needs.delete_marker is not None
            mask = pc.equal(column.cast(pa.string()), needs.delete_marker[1])
        masks.append(pc.fill_null(mask, False))
    return pc.if_else(reduce(pc.or_, masks), _flag(DELETED), _flag(0))


def _read_delete_file(
    storage: Storage, source: RunSource, needs: Needs
) -> Iterator[pa.RecordBatch]:
    with open_parquet(storage, source.path, source.name, footer=source.footer) as file:
        fields = [needs.key, *(field.with_nullable(True) for field in needs.ordering)]
        if needs.commit_times and COMMIT_TIME in file.schema.names:
            fields.append(_COMMIT_TIME_FIELD)
        target = pa.schema(fields)
        for batch in _read_batches(file, find_columns(file.schema, fields), source, needs):
            with reading(source.name):
                rows = shape(batch, target)
                check_keys(rows, source.name, needs.key.name)
                if needs.commit_times and COMMIT_TIME not in target.names:
                    rows = rows.append_column(_COMMIT_TIME_FIELD, _repeated(source, rows))
                nulls = [pc.is_null(rows.column(field.name)) for field in needs.ordering]
                # Without an ordering value a delete wins over every older version.
                flags = (
                    pc.if_else(reduce(pc.and_, nulls), _flag(COMMIT_TIME_DELETE), _flag(DELETED))
                    if nulls
                    else pa.repeat(_flag(COMMIT_TIME_DELETE), rows.num_rows)
                )
                rows = rows.append_column(FLAGS, flags)
            yield rows


def _read_delete_block(
    storage: Storage, source: RunSource, needs: Needs
) -> Iterator[pa.RecordBatch]:
    assert source.length is not None
    if source.length > MAX_DELETE_BYTES:
        raise UnsupportedError(
            f"{source.name}: a delete block of {source.length} bytes; expected at most "
            f"{MAX_DELETE_BYTES}, as it is read as a whole"
        )
    content = storage.read_range(source.path, source.offset, source.length)
    if len(content) != source.length:
        raise CorruptError(f"{source.name}: expected {source.length} bytes, found {len(content)}")
    types = [field.type for field in needs.ordering]
    deletes = decode_deletes(content, types, source.name)
    bare = pa.array(deletes.no_ordering)
    if not types:
        bare = pa.repeat(pa.scalar(True), len(deletes.keys))
    rows = pa.RecordBatch.from_arrays(
        [
            deletes.keys,
            *(deletes.ordering if types else ()),
            pc.if_else(bare, _flag(COMMIT_TIME_DELETE), _flag(DELETED)),
        ],
        names=[needs.key.name, *(field.name for field in needs.ordering), FLAGS],
    )
    if needs.commit_times:
        own = source.delete_instants
        times = _repeated(source, rows) if own is None else own.column(rows.num_rows, source.name)
        rows = rows.append_column(_COMMIT_TIME_FIELD, times)
    check_keys(rows, source.name, needs.key.name)
    for start in range(0, rows.num_rows, MAX_BATCH_ROWS):
        yield rows.slice(start, MAX_BATCH_ROWS)


def check_keys(rows: pa.RecordBatch, what: str, key: str = RECORD_KEY) -> None:
    """Raise UnsupportedError for rows without a key: they can be neither merged nor found."""
    if rows.column(key).null_count:
        raise UnsupportedError(
            f"{what}: rows without a record key ({key}) cannot be merged or looked up"
        )


def _repeated(source: RunSource, rows: pa.RecordBatch) -> pa.StringArray:
    return pa.repeat(pa.scalar(source.instant), rows.num_rows)


def _flag(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint8())
