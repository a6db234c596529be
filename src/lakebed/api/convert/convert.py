"""Convert a folder of Parquet files, or a Delta table, into a new table."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.api.convert.source import ConvertSource, SourceFile, find_source
from lakebed.api.opening import create_table, open_table
from lakebed.api.table import Table
from lakebed.errors import InvalidError, NotFoundError
from lakebed.storage.open import open_storage
from lakebed.terminal.progress import DISPLAY
from lakebed.terminal.text import plural, size_text

log = logging.getLogger(__name__)

STEP_BYTES: Final = 512 * 1024 * 1024
_SOURCE: Final = "convert.source"
_FINGERPRINT: Final = "convert.fingerprint"
_DONE: Final = "convert.files"


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a conversion did; `print` it to read it.

    `resumed` counts the files that an earlier, interrupted call had converted.
    """

    table: Table
    kind: str
    files: int
    resumed: int
    rows: int
    size_bytes: int

    def __str__(self) -> str:
        """Return the result as a sentence."""
        again = f", {self.resumed:,} of them by an earlier call" if self.resumed else ""
        return (
            f"{self.kind} converted into {self.table.path}: {plural(self.files, 'file')}{again}, "
            f"{plural(self.rows, 'row')}, {size_text(self.size_bytes)}"
        )


def convert(
    source: str,
    path: str,
    key: str | Sequence[str],
    ordering: str | Sequence[str] | None = None,
    partition_by: str | Sequence[str] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    step_bytes: int = STEP_BYTES,
) -> Conversion:
    """Convert a folder of Parquet files, or a Delta table, into a new table at `path`.

    The rows are streamed in this process, `step_bytes` of files per commit, and compacted at the
    end. An interrupted conversion is resumed by the same call: each commit records how far it got.
    The source is only read. Rows with equal keys are merged, as by `upsert`.

    Args:
        source: A folder of Parquet files, whose subfolders may be named `column=value`, or a Delta
            table (needs `pip install 'lakebed[delta]'`).
        path: Where to create the table.
        key: The record key columns.
        ordering: The columns that decide which of two rows with the same key wins.
        partition_by: The partition columns; by default those of the source's folders.
        storage_options: Options for the object store of both.
        properties: Hudi options to store with the table.
        step_bytes: How many bytes of files to convert per commit.

    Raises:
        NotFoundError: There are no Parquet files in `source`.
        InvalidError: `path` holds a table that this conversion did not begin, or the source has
            changed since it began.
        UnsupportedError: The Delta table has deletion vectors or mapped columns.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, lakebed
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2], "v": ["a", "b"]}), f"{folder}/part-0.parquet")
        >>> lakebed.convert(folder, "memory://doc/convert", key="id").rows
        2
    """
    if step_bytes <= 0:
        raise InvalidError(f"step_bytes={step_bytes}: expected a positive number of bytes")
    found = find_source(open_storage(source, storage_options), storage_options)
    if open_storage(path, storage_options).url.startswith(f"{found.storage.url}/"):
        raise InvalidError(f"{path}: expected a folder outside the source, {found.storage.url}")
    table, done = _begun(path, found, storage_options)
    if partition_by is None:
        partition_by = list(found.files[0].values) if found.files else []
    if table is not None:
        _check_same(table, {"key": key, "ordering": ordering, "partition_by": partition_by})
    else:
        table = create_table(
            None,
            path,
            found.schema,
            key=key,
            ordering=ordering,
            partition_by=partition_by,
            properties={**_encoding(found), **(properties or {})},
            storage_options=storage_options,
            expected_rows=found.rows or None,
        )
    left = found.files[done:]
    with DISPLAY.show(f"convert {found.storage.url}", len(found.files)) as report:
        at = done
        for step in _steps(left, step_bytes):
            table.upsert(found.read(step), commit_metadata=_mark(found, at + len(step)))
            at += len(step)
            if report is not None:
                report(at)
        if len(found.files) > 1:
            table.compact()
    return Conversion(table, found.kind, len(found.files), done, table.count(), found.size_bytes)


def _begun(
    path: str, source: ConvertSource, options: Mapping[str, str] | None
) -> tuple[Table | None, int]:
    """Return the table that an earlier call began, and how many files it has; None if there is none."""
    try:
        table = open_table(path, storage_options=options)
    except NotFoundError:
        return None, 0
    marks = [
        dict(row["commit_metadata"] or ())
        for row in table.history().to_pylist()
        if row["state"] == "completed" and row["operation"]
    ]
    if not marks:
        return table, 0  # the first commit failed
    mark = next((mark for mark in marks if _SOURCE in mark), None)
    if mark is None or mark[_SOURCE] != source.storage.url:
        raise InvalidError(f"{path}: a table already exists here; convert creates a new one")
    if mark[_FINGERPRINT] != source.fingerprint:
        raise InvalidError(
            f"{source.storage.url}: the files have changed since the conversion into {path} began; "
            "delete the table and convert anew"
        )
    return table, int(mark[_DONE])


def _check_same(table: Table, given: Mapping[str, str | Sequence[str] | None]) -> None:
    """Raise an error if an earlier call began the table with other columns."""
    config = table.config
    begun = {
        "key": config.record_key_fields,
        "ordering": config.ordering_fields,
        "partition_by": [name.partition(":")[0] for name in config.partition_fields],
    }
    for what, names in given.items():
        wanted = [names] if isinstance(names, str) else list(names or ())
        if [name.lower() for name in wanted] != [name.lower() for name in begun[what]]:
            raise InvalidError(
                f"{table.path}: the conversion began with {what}={list(begun[what])}, found {wanted}; "
                "pass the same, or delete the table and convert anew"
            )


def _encoding(source: ConvertSource) -> dict[str, str]:
    """Return the option that partition values with a slash need."""
    values = {value for file in source.files for value in file.values.values() if value}
    if not any("/" in value for value in values):
        return {}
    return {"hoodie.datasource.write.partitionpath.urlencode": "true"}


def _mark(source: ConvertSource, done: int) -> dict[str, str]:
    return {_SOURCE: source.storage.url, _FINGERPRINT: source.fingerprint, _DONE: str(done)}


def _steps(files: Sequence[SourceFile], step_bytes: int) -> Iterator[list[SourceFile]]:
    """Divide files, in their order, into steps of about `step_bytes`."""
    step: list[SourceFile] = []
    size = 0
    for file in files:
        if step and size + file.size_bytes > step_bytes:
            yield step
            step, size = [], 0
        step.append(file)
        size += file.size_bytes
    if step:
        yield step
