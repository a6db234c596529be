"""Checks one file slice: footers always, every page in a full check.

Keys are read as a stream, run by run, and compared as columns, so only one batch is in memory. The
other columns are decoded, so that a page with a wrong checksum is found.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakebed.errors import (
    CorruptError,
    LakebedError,
    NotFoundError,
    SchemaError,
    UnavailableError,
    UnknownFormatError,
    UnsupportedError,
)
from lakebed.format.files.footer import FOOTER_COLUMN_GROUPS
from lakebed.format.index.bloom import (
    FOOTER_BLOOM,
    FOOTER_BLOOM_TYPE,
    BloomFilter,
    parse_bloom,
)
from lakebed.format.names.meta_columns import FILE_NAME, META_FIELDS, PARTITION_PATH, RECORD_KEY
from lakebed.groups.wide import WideColumns
from lakebed.model.executor import TaskId
from lakebed.model.packing import file_cost
from lakebed.services.verify.findings import (
    ADVICE_LOST,
    ADVICE_REWRITE,
    ADVICE_UNKNOWN,
    Code,
    Finding,
    Severity,
)
from lakebed.services.verify.key_columns import KeyStream, check_footer_keys
from lakebed.storage.storage import Storage
from lakebed.table.config.merge_mode import MergeMode
from lakebed.table.config.schema import find_field
from lakebed.table.files.file_group import BaseFile, FileSlice, LogFile, join_path
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.pages.paged_file import ParquetFooter
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.projection import find_columns, shape
from lakebed.table.read.run_reader import Needs, open_data, open_run, read_run
from lakebed.table.read.run_source import RunKind, RunSource
from lakebed.table.view import TableView

_META = tuple(field for field in META_FIELDS if field.name in (PARTITION_PATH, FILE_NAME))
# Keys alone are small, and many tasks run at once.
_BUFFER_BYTES = 2 << 20


_UNREAD = frozenset({Code.FILE_UNREADABLE, Code.FILE_MISSING, Code.FILE_UNSUPPORTED})


@dataclass(frozen=True, slots=True)
class SliceCheck:
    """One slice to check; pickled to workers.

    `has_schema` is false if no commit with a schema can be read. `base_rows` is the number of rows
    that a commit records for the base file. A slice that is `superseded` by a newer base file is
    needed only by reads as of an earlier instant. `foreign` are the columns that belong to other
    column groups, with the time from which files of this group must not have them.
    """

    view: TableView
    has_schema: bool
    slice_: FileSlice
    base_rows: int | None
    full: bool
    superseded: bool = False
    foreign: Mapping[str, str] = field(default_factory=dict)

    @property
    def cost_bytes(self) -> int:
        """Return the estimated cost of this task, in bytes; without `full` only footers are read."""
        return self.slice_.cost_bytes if self.full else file_cost(0, len(self.slice_.files))


@dataclass(frozen=True, slots=True)
class Checked:
    """The findings of a task, and how much it checked."""

    findings: tuple[Finding, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def check_slice(check: SliceCheck, task: TaskId) -> Checked:
    """Check the files of one slice."""
    del task
    checked = _check_slice(check)
    if not check.superseded:
        return checked
    return replace(checked, findings=tuple(map(_of_older_version, checked.findings)))


def _of_older_version(finding: Finding) -> Finding:
    """Reduce an error to a warning: only reads as of an earlier instant open the file."""
    if finding.severity is not Severity.ERROR:
        return finding
    return replace(
        finding,
        severity=Severity.WARNING,
        message=f"{finding.message}; only reads as of an earlier instant need this version",
        advice="cleaning will delete it",
    )


def _check_slice(check: SliceCheck) -> Checked:
    findings: list[Finding] = []
    counts = {"slice": 1, "footer": 0, "key": 0}
    try:
        sources = slice_sources(check.view, check.slice_)
    except UnavailableError:
        raise
    except LakebedError as error:
        return _check_apart(check, error)
    for source in sources:
        try:
            findings += _check_run(check, source, counts)
        except UnavailableError:
            raise
        except LakebedError as error:
            without = _rows_without_key(check, source) if check.full else 0
            findings.append(_no_key(source, without) if without else unreadable(error, source.path))
    return Checked(tuple(findings), counts)


def _check_apart(check: SliceCheck, error: LakebedError) -> Checked:
    """Check each file of a slice that cannot be read as a whole, to find the bad one."""
    slice_ = check.slice_
    if len(slice_.files) < 2:
        return Checked((unreadable(error, _slice_path(slice_)),), {"slice": 1})
    alone = replace(slice_, log_files=(), tombstones=(), boundary=None)
    logs = (*slice_.tombstones, *slice_.log_files)
    parts = [replace(alone, base_file=None, log_files=(log,)) for log in logs]
    if slice_.base_file is not None:
        parts.append(alone)
    findings: list[Finding] = []
    counts = Counter({"slice": 1 - len(parts)})
    for part in parts:
        done = _check_slice(replace(check, slice_=part))
        findings += done.findings
        counts.update(done.counts)
    if not any(finding.code in _UNREAD for finding in findings):
        findings.append(unreadable(error, _slice_path(slice_)))
    return Checked(tuple(findings), counts)


def _rows_without_key(check: SliceCheck, source: RunSource) -> int:
    """Count the rows without a record key, which no reader can merge or find."""
    if not check.view.config.has_meta_columns or source.kind is not RunKind.DATA:
        return 0
    try:
        with open_data(check.view.storage, source) as file:
            if RECORD_KEY not in file.schema.names:
                return sum(batch.num_rows for batch in file.read(file.schema.names[:1]))
            return sum(batch.column(0).null_count for batch in file.read([RECORD_KEY]))
    except LakebedError:
        return 0  # an unreadable file is already reported


def _no_key(source: RunSource, rows: int) -> Finding:
    return Finding(
        Severity.ERROR,
        Code.KEY_MISSING,
        f"{source.name}: {rows} rows have no record key; they can neither be merged nor found",
        path=source.path,
        instant=source.instant,
        advice=ADVICE_REWRITE,
    )


def unreadable(error: LakebedError, path: str) -> Finding:
    """Return the finding for a file that is unreadable, or unsupported by this release."""
    if isinstance(error, UnknownFormatError):
        return Finding(
            Severity.ERROR, Code.FILE_UNREADABLE, str(error), path=path, advice=ADVICE_UNKNOWN
        )
    if isinstance(error, UnsupportedError):
        return Finding(Severity.NOTE, Code.FILE_UNSUPPORTED, f"{error}; not checked", path=path)
    missing = isinstance(error, NotFoundError)
    return Finding(
        Severity.ERROR,
        Code.FILE_MISSING if missing else Code.FILE_UNREADABLE,
        str(error),
        path=path,
        advice=ADVICE_LOST,
    )


def _check_run(check: SliceCheck, source: RunSource, counts: dict[str, int]) -> Iterator[Finding]:
    footer = None
    if source.is_parquet:
        footer = source.footer or _footer(check.view.storage, source)
        counts["footer"] += 1
        yield from _check_footer(check, source, footer)
    if not check.full:
        return
    name = _own_file_name(check, source)
    stream = KeyStream(source, check.view.config, check.slice_.group, name, _bloom(source, footer))
    needs = _needs(check, source)
    batches = (
        read_run(check.view.storage, source, needs)
        if source.ordered
        # The keys are sorted first, so that equal keys are adjacent.
        else open_run(check.view.storage, source, needs).batches
    )
    for batch in batches:
        counts["key"] += batch.num_rows
        stream.take(batch)
    if source.serves in (None, ("",)):  # a base file of all columns is checked for each group
        decode_run(check.view.storage, replace(source, serves=None))
    yield from stream.findings()
    if footer is not None and source.kind is RunKind.DATA:
        yield from check_footer_keys(check.view.storage, source, footer, stream)


def decode_run(storage: Storage, source: RunSource) -> None:
    """Read and decode all columns of a run, which verifies the checksum of each page."""
    if source.kind is not RunKind.DATA and not source.is_parquet:
        for _ in read_run(storage, source, Needs(())):
            pass
        return
    with open_data(storage, source) as file:
        for _ in file.read(file.schema.names, buffer_bytes=_BUFFER_BYTES):
            pass


def _bloom(source: RunSource, footer: ParquetFooter | None) -> BloomFilter | None:
    text = footer.key_values.get(FOOTER_BLOOM) if footer is not None else None
    if footer is None or text is None:
        return None
    return parse_bloom(text, footer.key_values.get(FOOTER_BLOOM_TYPE, ""), source.name)


def _check_footer(check: SliceCheck, source: RunSource, footer: ParquetFooter) -> Iterator[Finding]:
    wanted = check.base_rows
    found = int(footer.metadata.num_rows)
    if source.is_base and wanted is not None and wanted != found:
        yield Finding(
            Severity.ERROR,
            Code.ROW_COUNT,
            f"{source.name}: its commit wrote {wanted} rows, its footer has {found}",
            path=source.path,
            instant=source.instant,
            advice=ADVICE_LOST,
        )
    if not check.has_schema or source.kind is not RunKind.DATA:
        return
    fields = [field.with_nullable(True) for field in check.view.schema]
    names = find_columns(footer.schema, fields)
    empty = pa.schema([footer.schema.field(name) for name in names]).empty_table()
    try:
        for batch in empty.to_batches() or [_no_rows(empty.schema)]:
            shape(batch, pa.schema(fields))
    except (SchemaError, CorruptError) as error:
        yield _schema_finding(source, f"its columns do not match the table's schema: {error}")
    if source.serves is not None:
        WideColumns.parse(footer.key_values.get(FOOTER_COLUMN_GROUPS), source.name)
        return
    times = {name: check.foreign[name] for name in footer.schema.names if name in check.foreign}
    foreign = [name for name, since in times.items() if since < source.instant]
    if foreign:
        problem = f"it has columns of other column groups: {', '.join(foreign)}; they are not read"
        yield _schema_finding(source, problem)


def _schema_finding(source: RunSource, problem: str) -> Finding:
    return Finding(
        Severity.ERROR,
        Code.FILE_SCHEMA,
        f"{source.name}: {problem}",
        path=source.path,
        instant=source.instant,
        advice=ADVICE_LOST,
    )


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _footer(storage: Storage, source: RunSource) -> ParquetFooter:
    with open_parquet(
        storage, source.path, source.name, offset=source.offset, length=source.length
    ) as file:
        return file.footer


def _needs(check: SliceCheck, source: RunSource) -> Needs:
    if source.kind is RunKind.DATA:
        return Needs(_META, buffer_bytes=_BUFFER_BYTES)
    ordering = []
    if check.view.config.merge_mode is MergeMode.EVENT_TIME_ORDERING and check.has_schema:
        fields = list(check.view.schema)
        for name in check.view.config.ordering_fields:
            at = find_field(fields, name)
            if at is not None:
                ordering.append(fields[at].with_name(name).with_nullable(True))
    return Needs((), ordering=tuple(ordering), buffer_bytes=_BUFFER_BYTES)


def _own_file_name(check: SliceCheck, source: RunSource) -> str:
    """Return the expected `_hoodie_file_name`: the name of a base file, the file id for a log."""
    return source.path.rpartition("/")[2] if source.is_base else check.slice_.group.file_id


def _slice_path(slice_: FileSlice) -> str:
    files: tuple[BaseFile | LogFile, ...] = slice_.files
    if len(files) == 1:
        return files[0].path
    return join_path(slice_.group.partition, slice_.group.file_id)
