"""Writes native logs: Parquet files of changed rows and of deletes."""

from dataclasses import replace

import pyarrow as pa

from lakebed.errors import InvalidError
from lakebed.format.logs.native_footer import FOOTER_KINDS, LogFooter, encode_log_footer
from lakebed.format.names.data_names import LogKind, NativeLogName
from lakebed.format.names.meta_columns import COMMIT_TIME, RECORD_KEY
from lakebed.table.files.file_group import join_path
from lakebed.table.store.data_writer import DataFileStats, DataFileWriter, NewDataFile
from lakebed.table.store.inline_log import LOG_ROW_GROUP_ROWS, file_number
from lakebed.table.store.log_target import Deletes, LogTarget, Rows
from lakebed.table.store.run_writer import RunWriter


class NativeLog:
    """The files of one version, `.log.parquet` and `.deletes.parquet`, as needed.

    Deletes replay after the rows of the same version, so from the first barrier on rows and deletes
    go to the next version, and only barriers still go to the first.
    """

    def __init__(self, target: LogTarget) -> None:
        self._target = target
        self._version = target.version
        self._rows: dict[int, DataFileWriter] = {}
        self._deletes: dict[int, RunWriter] = {}
        self._barriers = 0
        self._closed: list[DataFileStats] = []
        self._delete_schema = pa.schema(
            [pa.field(RECORD_KEY, pa.string(), nullable=False), *target.ordering]
        )

    def put_barriers(self, deletes: Deletes) -> None:
        """Add deletes that replay before the rows and deletes of the same keys."""
        target = self._target
        if target.next_version is None or target.next_version <= target.version:
            raise InvalidError(
                f"{target.place}: key {deletes.keys[0].as_py()!r} must win over older versions: "
                f"expected a version above {target.version} for it, found {target.next_version}"
            )
        self._put_deletes(deletes, target.version)
        self._barriers += len(deletes.keys)
        self._version = target.next_version

    def put_rows(self, rows: Rows) -> None:
        """Add changed rows."""
        writer = self._rows.get(self._version)
        if writer is None:
            writer = self._rows[self._version] = self._open_rows()
        writer.write(
            rows.columns,
            rows.keys,
            commit_times=rows.commit_times,
            commit_seqnos=rows.commit_seqnos,
        )

    def put_deletes(self, deletes: Deletes) -> None:
        """Add deletes."""
        self._put_deletes(deletes, self._version)

    def close(self) -> list[DataFileStats]:
        """Make the files visible, in replay order."""
        for version in sorted({*self._rows, *self._deletes}):
            if rows := self._rows.get(version):
                self._closed.append(replace(rows.close(), version=version))
            if run := self._deletes.get(version):
                path, size_bytes = self._path(LogKind.DELETES, version), run.close()
                deletes = run.rows - (self._barriers if version == self._target.version else 0)
                keys = run.min_key, run.max_key
                self._closed.append(DataFileStats(path, size_bytes, 0, *keys, deletes, version))
        return self._closed

    def abort(self) -> None:
        """Discard everything, including files that are already visible."""
        for rows in self._rows.values():
            rows.abort()
        for deletes in self._deletes.values():
            deletes.abort()
        for stats in self._closed:
            self._target.storage.delete(stats.path)

    def _put_deletes(self, deletes: Deletes, version: int) -> None:
        schema, columns = self._delete_schema, [deletes.keys, *deletes.ordering]
        if deletes.instants is not None:
            schema = schema.append(pa.field(COMMIT_TIME, pa.string()))
            columns.append(deletes.instants)
        writer = self._deletes.get(version)
        if writer is None:
            path = self._path(LogKind.DELETES, version)
            writer = self._deletes[version] = RunWriter(
                self._target.storage.open_write(path), path, schema, self._footer(LogKind.DELETES)
            )
        writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))

    def _open_rows(self) -> DataFileWriter:
        target = self._target
        path = self._path(LogKind.LOG, self._version)
        return DataFileWriter(
            target.storage.open_write(path),
            NewDataFile(
                path,
                target.schema,
                table_name=target.table_name,
                instant=target.instant,
                partition_path=target.group.partition,
                file_name=target.group.file_id,
                task=file_number(path),
                metadata=self._footer(LogKind.LOG),
                row_group_rows=LOG_ROW_GROUP_ROWS,
                page_rows=target.page_rows,
            ),
        )

    def _path(self, kind: LogKind, version: int) -> str:
        target = self._target
        group = target.group
        name = NativeLogName(
            group.file_id,
            target.write_token,
            target.instant,
            version,
            kind,
            column_group=group.column_group,
        )
        return join_path(group.partition, name.encode())

    def _footer(self, kind: LogKind) -> dict[str, str]:
        target = self._target
        is_rows = kind is LogKind.LOG
        return encode_log_footer(
            LogFooter(
                FOOTER_KINDS[kind],
                target.instant,
                # For deletes too this is the table's schema: a reader derives the schema of deletes
                # from it.
                target.row_schema if is_rows else target.table_schema,
                target.row_headers if is_rows else target.headers,
                is_ordered=True,
            )
        )
