"""The target and the content of one run that is written as log files."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.logs.log_block import HeaderKey
from lakebed.storage.storage import Storage
from lakebed.table.files.file_group import FileGroupId, join_path


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTarget:
    """The target of a run: its location, its form and its instant.

    `schema` are the columns of its rows, `row_schema` the same as Avro with meta fields, and
    `table_schema` the schema of the whole table. `ordering` are the ordering columns as deletes
    hold them; none if the commit time decides. `compacted` are the instants that a log compaction
    replaces: readers skip earlier runs of these instants. `avro` selects Avro blocks instead of
    Parquet ones; `inline` distinguishes blocks in one file from native files.
    """

    storage: Storage
    table_name: str
    group: FileGroupId
    write_token: str
    version: int
    next_version: int | None
    instant: str
    schema: pa.Schema
    row_schema: str
    table_schema: str
    ordering: tuple[pa.Field, ...]
    partial: bool
    page_rows: int
    compacted: tuple[str, ...] = ()
    avro: bool = False
    inline: bool = True

    @property
    def place(self) -> str:
        """Return the file group and the instant, for error messages."""
        return join_path(self.group.partition, f"{self.group.file_id} at {self.instant}")

    @property
    def row_headers(self) -> dict[HeaderKey, str]:
        """Return the headers of rows besides instant and schema."""
        return self.headers | ({HeaderKey.IS_PARTIAL: "true"} if self.partial else {})

    @property
    def headers(self) -> dict[HeaderKey, str]:
        """Return the headers that rows and deletes share."""
        if not self.compacted:
            return {}
        return {HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(self.compacted)}


@dataclass(frozen=True, slots=True)
class Rows:
    """Changed rows in ascending key order; the last two columns are set for rows carried over."""

    keys: pa.StringArray
    columns: pa.RecordBatch
    commit_times: pa.StringArray | None = None
    commit_seqnos: pa.StringArray | None = None


@dataclass(frozen=True, slots=True)
class Deletes:
    """Deleted keys in ascending order, and a column per ordering field.

    A delete whose ordering values are null always wins over older versions. `instants` are the
    commits that deleted the keys, if this write merges deletes of several commits.
    """

    keys: pa.StringArray
    ordering: list[pa.Array]
    instants: pa.StringArray | None = None

    def split(self) -> tuple["Deletes | None", "Deletes | None"]:
        """Return the deletes with an ordering value, and those that always win; None if empty."""
        always = self.ordering[0].is_null() if self.ordering else None
        if always is None or always.true_count == len(always):
            return None, self
        if always.true_count == 0:
            return self, None
        return self._filter(pc.invert(always)), self._filter(always)

    def _filter(self, mask: pa.BooleanArray) -> "Deletes":
        return Deletes(
            self.keys.filter(mask),
            [column.filter(mask) for column in self.ordering],
            None if self.instants is None else self.instants.filter(mask),
        )

    @property
    def size_bytes(self) -> int:
        """Return the memory that the deletes take."""
        return int(self.keys.nbytes + sum(column.nbytes for column in self.ordering))
