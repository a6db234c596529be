"""The rows of one column group of a file slice: its runs merged as a stream, without deletes.

In a table without column groups that is the whole file slice.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, SchemaError, UnsupportedError
from lakebed.format.files.footer import FOOTER_IS_ORDERED
from lakebed.format.names.meta_columns import COMMIT_TIME, META_COLUMNS, RECORD_KEY
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import DELETED, FLAGS, Run
from lakebed.merge.window import gather
from lakebed.storage.storage import Storage
from lakebed.table.config.schema import find_field
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.tombstone_retention import forgotten_deletes
from lakebed.table.files.damage import check_whole
from lakebed.table.files.file_group import BaseFile, Boundary, FileSlice
from lakebed.table.read.base_file import open_columns
from lakebed.table.read.conform import check_nulls
from lakebed.table.read.few_keys import find_rows, place_rows, places_of, read_places
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.pages.paged_file import ParquetFooter, reading
from lakebed.table.read.pages.sorted_keys import check_ascending
from lakebed.table.read.parquet_source import READ_ROWS, ParquetSource
from lakebed.table.read.projection import find_columns, project, shape, with_columns
from lakebed.table.read.row_group_filter import RowGroupFilter
from lakebed.table.read.run_reader import KEY_FIELD, Needs, VirtualKey, check_keys, open_runs
from lakebed.table.read.run_source import RunSource
from lakebed.table.read.spill import Spills
from lakebed.table.view import TableView

# The batches of all runs of a merge together have about this many rows. In addition each run holds
# a page of every column in memory.
_MERGE_ROWS = 147_456
# Returning memory to the system costs time, so it is not done after every batch.
_RELEASE_ROWS = 131_072
_MIN_MERGE_ROWS = 1_024


def read_group(
    view: TableView,
    slice_: FileSlice,
    columns: Sequence[str],
    *,
    key_filter: KeyFilter | None = None,
    row_groups: RowGroupFilter | None = None,
    sources: Sequence[RunSource] | None = None,
    by_key: bool = False,
    deletes: Callable[[pa.RecordBatch], None] | None = None,
) -> Generator[pa.RecordBatch]:
    """Yield `columns` of the rows of `slice_`, from the view's schema and the meta columns.

    For a slice without logs, the rows of its base file are yielded in file order, except for row
    groups that `row_groups` excludes, and the merge rule is not needed. Otherwise, or with
    `by_key`, rows come in ascending key order, each key once unless its base file holds it several
    times. `sources` are the runs of the slice, if the caller has them already. `deletes`, which
    requires `by_key`, is called with the deleted keys, their ordering values, flags and `columns`,
    of which only the commit time is defined. Memory is bounded by the number of runs times the
    view's buffer; unsorted runs are sorted within a separate bound.
    """
    check_whole([slice_])
    target = pa.schema(project(view.schema, columns))
    if sources is None:
        sources = slice_sources(view, slice_) if by_key or slice_.needs_merge else []
    if not by_key and all(source.is_base for source in sources):
        footer = sources[0].footer if sources else None
        batches = gather(_read_base(view, slice_.base_file, footer, target, key_filter, row_groups))
    else:
        rule, needs = merge_needs(view, target, sources, key_filter)
        batches = _merge(view.storage, slice_, sources, needs, rule, target, deletes)
    try:
        yield from batches
    finally:
        pa.default_memory_pool().release_unused()


def merge_needs(
    view: TableView,
    target: pa.Schema,
    sources: Sequence[RunSource],
    key_filter: KeyFilter | None,
) -> tuple[MergeRule, Needs]:
    """Return the rule that merges the runs of a slice, and the columns it needs from each run."""
    # A base file alone needs no merge rule; the rule may even be unsupported.
    rule = MergeRule() if all(source.is_base for source in sources) else view.rule
    needs = Needs(
        fields=_merged_fields(view.schema, target, rule),
        ordering=_ordering(view.schema, rule),
        delete_marker=view.config.delete_marker,
        key_filter=key_filter,
        virtual_key=virtual_key(view.config),
        buffer_bytes=view.buffer_bytes,
        max_rows=min(READ_ROWS, max(_MIN_MERGE_ROWS, _MERGE_ROWS // max(1, len(sources)))),
    )
    return rule, needs


def virtual_key(config: TableConfig) -> VirtualKey | None:
    """Return how keys are computed in a table without meta columns; None for all others."""
    if config.has_meta_columns:
        return None
    if config.key_generator is None or not config.record_key_fields:
        raise UnsupportedError(
            f"table {config.name!r} has no meta columns and an unknown key generator, so its rows "
            "cannot be merged"
        )
    return VirtualKey(config.record_key_fields, config.composite_key)


def _ordering(schema: pa.Schema, rule: MergeRule) -> tuple[pa.Field, ...]:
    """Return the ordering columns, named as in the rule."""
    fields = []
    for name in rule.ordering_fields:
        position = find_field(list(schema), name)
        if position is None:
            raise SchemaError(
                f"ordering column {name!r}: the table has {', '.join(schema.names)} only"
            )
        fields.append(schema.field(position).with_name(name).with_nullable(True))
    return tuple(fields)


def _merged_fields(schema: pa.Schema, target: pa.Schema, rule: MergeRule) -> tuple[pa.Field, ...]:
    """Return the columns that go through the merge: a custom merger may use all of them."""
    wanted = list(target)
    if rule.merger is not None:
        wanted += project(schema, [*META_COLUMNS, *schema.names])
    # A deleted version has no columns, and a partial version lacks some.
    return tuple(
        field.with_nullable(True) for field in {field.name: field for field in wanted}.values()
    )


def _read_base(
    view: TableView,
    base: BaseFile | None,
    footer: ParquetFooter | None,
    target: pa.Schema,
    key_filter: KeyFilter | None,
    row_groups: RowGroupFilter | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a base file that no log changes, in file order."""
    if base is None:
        return
    # Some releases of Hudi stored meta columns even in such tables; they must not be returned.
    hidden = () if view.config.has_meta_columns else META_COLUMNS
    what = f"base file {base.path!r}"
    fields = base_fields(target, key_filter)
    with open_columns(view.storage, base.path, what, footer=footer, serves=base.serves) as file:
        found = find_columns(file.schema, [f for f in fields if f.name not in hidden])
        spans = None if key_filter is None else key_filter.spans(file, what)
        if spans is not None:
            possible = None if row_groups is None or not spans else row_groups.row_groups(file)
            kept = [span for span in spans if possible is None or span.group in possible]
            batches = file.read_spans(found, kept)
        else:
            groups = wanted_groups(file, key_filter, row_groups, what)
            batches = file.read(found, buffer_bytes=view.buffer_bytes, row_groups=groups)
        for batch in batches:
            with reading(what):
                rows = shape(batch, pa.schema(fields))
            if key_filter is not None:
                check_keys(rows, what)
                if file.key_values.get(FOOTER_IS_ORDERED) == "true":
                    check_ascending(rows.column(RECORD_KEY), what)
                rows = rows.filter(key_filter.mask(rows.column(RECORD_KEY)))
            yield rows.select(target.names)


def base_fields(target: pa.Schema, key_filter: KeyFilter | None) -> list[pa.Field]:
    """Return the fields to read from an unchanged base file: `target`, and the key if needed."""
    filtered = key_filter is not None and RECORD_KEY not in target.names
    return [*target, *([KEY_FIELD] if filtered else [])]


def wanted_groups(
    file: ParquetSource, keys: KeyFilter | None, rows: RowGroupFilter | None, what: str
) -> list[int] | None:
    """Return the row groups that both filters allow; None means all row groups."""
    known = None if keys is None else keys.row_groups(file, what)
    if rows is None or known == []:
        return known
    possible = rows.row_groups(file)
    if known is None or possible is None:
        return known if possible is None else possible
    return sorted(set(known) & set(possible))


def _merge(
    storage: Storage,
    slice_: FileSlice,
    sources: Sequence[RunSource],
    needs: Needs,
    rule: MergeRule,
    target: pa.Schema,
    deletes: Callable[[pa.RecordBatch], None] | None,
) -> Iterator[pa.RecordBatch]:
    group = slice_.group
    pool = pa.default_memory_pool()
    given = 0
    with Spills() as spills:
        merged = _merged_rows(
            storage, slice_, sources, needs, rule, spills, keep_deletes=deletes is not None
        )
        for batch in merged if deletes is None else _without_deletes(merged, deletes):
            arrays = [batch.column(name) for name in target.names]
            if needs.virtual_key is not None:
                # Hudi reads these columns as null, even where some of its releases stored values.
                arrays = [
                    pa.nulls(len(array), array.type) if name in META_COLUMNS else array
                    for name, array in zip(target.names, arrays, strict=True)
                ]
            try:
                for array, field in zip(arrays, target, strict=True):
                    check_nulls(array, field, field.name)
            except SchemaError as error:
                raise CorruptError(
                    f"file group {group.file_id} in partition {group.partition!r}: {error}"
                ) from error
            # The allocator keeps pages of every size that it ever used, for each decoding thread:
            # two to three times the memory in use, growing with the length of the merge.
            given += batch.num_rows
            if given >= _RELEASE_ROWS:
                pool.release_unused()
                given = 0
            yield with_columns(batch, arrays, target)


def _merged_rows(
    storage: Storage,
    slice_: FileSlice,
    sources: Sequence[RunSource],
    needs: Needs,
    rule: MergeRule,
    spills: Spills,
    *,
    keep_deletes: bool,
) -> Iterator[pa.RecordBatch]:
    """Merge the runs of a slice; of a few keys, only the rows that remain are read completely."""
    found = find_rows(storage, sources, needs)
    if found is None:
        return _merged_runs(
            storage, slice_, sources, needs, rule, spills, keep_deletes=keep_deletes
        )
    needs = replace(needs, found=found)
    held = [source for source in sources if found.get(source.name) != ()]
    placed = None if keep_deletes else place_rows(storage, held, needs, rule, found)
    merged = _merged_runs(
        storage, slice_, held, placed or needs, rule, spills, keep_deletes=keep_deletes
    )
    return (
        merged if placed is None else read_places(storage, held, needs, placed, places_of(merged))
    )


def _merged_runs(
    storage: Storage,
    slice_: FileSlice,
    sources: Sequence[RunSource],
    needs: Needs,
    rule: MergeRule,
    spills: Spills,
    *,
    keep_deletes: bool,
) -> Iterator[pa.RecordBatch]:
    """Merge the runs of a slice in the order that the rule requires."""
    schema = pa.schema(needs.all_fields)
    boundary = slice_.boundary
    if boundary is not None and _meets_expired(boundary, slice_, sources, rule):
        late = {log.path for log in slice_.log_files[boundary.merged :]}
        older = [source for source in sources if source.path not in late]
        runs = [_run_at_plan(storage, older, needs, rule, spills, boundary.cutoff)]
        newer = [source for source in sources if source.path in late]
        runs += [run for _, run in open_runs(storage, newer, needs)]
    else:
        opened = open_runs(storage, sources, needs)
        runs = _base_last(opened) if rule.logs_first else [run for _, run in opened]
    return merge_in_passes(runs, rule, schema, spills.spill, keep_deletes=keep_deletes)


def _meets_expired(
    boundary: Boundary, slice_: FileSlice, sources: Sequence[RunSource], rule: MergeRule
) -> bool:
    """Return whether logs on top of a pending plan may be merged with deletes that it drops."""
    late = {log.path for log in slice_.log_files[boundary.merged :]}
    return bool(rule.ordering_fields) and any(
        source.oldest_instant < boundary.cutoff
        for source in sources
        if not source.is_base and source.path not in late
    )


def _run_at_plan(
    storage: Storage,
    sources: Sequence[RunSource],
    needs: Needs,
    rule: MergeRule,
    spills: Spills,
    cutoff: str,
) -> Run:
    """Merge the runs below a pending plan into the rows that its compaction will keep.

    The logs on top of the plan are merged with the result, so the slice reads the same before and
    after the compaction.
    """
    commit_time = pa.field(COMMIT_TIME, pa.string())
    needs = replace(needs, fields=(commit_time, *needs.fields))
    runs = [run for _, run in open_runs(storage, sources, needs)]
    schema = pa.schema(needs.all_fields)
    merged = merge_in_passes(runs, rule, schema, spills.spill, keep_deletes=True)
    kept = (batch.filter(pc.invert(forgotten_deletes(batch, cutoff))) for batch in merged)
    return Run("rows below a pending compaction", kept, repeats=True)


def _without_deletes(
    batches: Iterable[pa.RecordBatch], deletes: Callable[[pa.RecordBatch], None]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        gone = batch.column(FLAGS).to_numpy() & DELETED != 0
        live = batch
        if gone.any():
            deletes(batch.filter(pa.array(gone)))
            live = batch.filter(pa.array(~gone))
        if live.num_rows:
            yield live.drop_columns([FLAGS])


def _base_last(opened: Sequence[tuple[RunSource, Run]]) -> list[Run]:
    """Move the base file to the end and mark it with `yields`: Hudi merges the logs first."""
    if all(source.is_base for source, _ in opened):
        return [run for _, run in opened]
    logs = [run for source, run in opened if not source.is_base]
    return [*logs, *(replace(run, yields=True) for source, run in opened if source.is_base)]
