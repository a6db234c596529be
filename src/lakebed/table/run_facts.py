"""Facts about the runs of file groups, from the headers and footers of their files.

For people: the command and the page draw them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.errors import InvalidError, LakebedError
from lakebed.format.files.footer import FOOTER_MAX_KEY, FOOTER_MIN_KEY
from lakebed.model.instant import parse_instant
from lakebed.table.files.damage import check_whole
from lakebed.table.files.file_group import ALL_GROUPS, BaseFile, FileSlice
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.pages.paged_file import ParquetFooter
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.run_source import RunSource
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run: level `L1` is a base file, level `L0` a log or a block of a log.

    `min_key` and `max_key` are None if the footer does not record them. `column_group` is empty for
    the default column group.
    """

    level: str
    kind: str
    path: str
    instant: str
    size_bytes: int
    rows: int | None
    min_key: str | None
    max_key: str | None
    age_ms: int | None
    column_group: str = ""


@dataclass(frozen=True, slots=True)
class FileGroupFacts:
    """A file group with its runs, newest first; `problem` is the reason why they could not be read.

    In a table with column groups, each group has its own runs, the default group first.
    """

    partition: str
    file_id: str
    size_bytes: int
    runs: tuple[RunFacts, ...]
    problem: str = ""


def read_groups(
    snapshot: Snapshot, slices: Sequence[FileSlice], now_ms: int
) -> tuple[FileGroupFacts, ...]:
    """Return the runs of `slices`, described from headers and footers."""
    return tuple(_read_group(snapshot, slice_, now_ms) for slice_ in slices)


def age_of(instant: str, zone: str, now_ms: int) -> int | None:
    """Return the age of an instant in milliseconds; None if its digits are not a valid time."""
    try:
        return now_ms - parse_instant(instant, zone)
    except InvalidError:
        return None


def _read_group(snapshot: Snapshot, slice_: FileSlice, now_ms: int) -> FileGroupFacts:
    view, problem, runs = snapshot.view(), "", []
    parts = slice_.by_group
    try:
        check_whole([slice_])
        for name, part in parts.items():
            runs += _read_runs(snapshot, view.of_group(name), part, now_ms)
        # A base file of all columns is a run of each group.
        runs = [run for at, run in enumerate(runs) if run not in runs[:at]]
        runs.sort(key=lambda run: run.column_group != ALL_GROUPS)
    except LakebedError as error:
        problem = str(error)
        runs = [
            RunFacts(
                "L1" if isinstance(file, BaseFile) else "L0",
                "unread",
                file.path,
                file.name.instant,
                file.size_bytes,
                None,
                None,
                None,
                age_of(file.name.instant, snapshot.config.zone, now_ms),
                name,
            )
            for name, part in parts.items()
            for file in reversed(part.files)
        ]
    group = slice_.group
    total = sum(file.size_bytes for file in slice_.files)
    return FileGroupFacts(group.partition, group.file_id, total, tuple(runs), problem)


def _read_runs(snapshot: Snapshot, view: TableView, part: FileSlice, now_ms: int) -> list[RunFacts]:
    """Return the runs of one column group, newest first."""
    sizes = {file.path: file.size_bytes for file in part.files}
    runs = [
        _run(
            source,
            _footer(snapshot, source),
            sizes[source.path],
            age_of(source.instant, snapshot.config.zone, now_ms),
            ALL_GROUPS if source.serves is not None else part.group.column_group,
        )
        for source in slice_sources(view, part)
    ]
    return runs[::-1]


def _run(
    source: RunSource,
    footer: ParquetFooter | None,
    file_bytes: int,
    age_ms: int | None,
    column_group: str,
) -> RunFacts:
    values = footer.key_values if footer is not None else {}
    return RunFacts(
        "L1" if source.is_base else "L0",
        "partial rows" if source.partial else str(source.kind),
        source.path,
        source.instant,
        file_bytes if source.length is None else source.length,
        None if footer is None else int(footer.metadata.num_rows),
        values.get(FOOTER_MIN_KEY),
        values.get(FOOTER_MAX_KEY),
        age_ms,
        column_group,
    )


def _footer(snapshot: Snapshot, source: RunSource) -> ParquetFooter | None:
    if source.footer is not None or not source.is_parquet:
        return source.footer
    with open_parquet(
        snapshot.storage, source.path, source.name, offset=source.offset, length=source.length
    ) as file:
        return file.footer
