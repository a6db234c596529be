"""One run of a file slice: the kind of its content and the location of its bytes.

A base file, a native log file and a block of an inline log, Parquet or Avro, are all runs; callers
treat them alike.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from lakebed.format.logs.delete_instants import DeleteInstants
from lakebed.format.names.meta_columns import COMMIT_TIME
from lakebed.table.read.pages.paged_file import ParquetFooter


class RunKind(StrEnum):
    """The content of a run: rows, or the keys of deleted rows."""

    DATA = "data"
    DELETES = "deletes"


@dataclass(frozen=True, slots=True)
class RunSource:
    """The location of one run: `length` bytes from `offset`, or the whole file if not set.

    Rows are stored as Parquet, or as Avro with the schema `avro_schema`; deletes as a Parquet file,
    or as the content of a delete block. An `ordered` run is marked as ascending by record key;
    reading it checks that. A `partial` run holds only the changed columns. `instant` is the commit
    that wrote the run; deletes that a compaction merged from several commits have their own
    `delete_instants`, or a column of them. `footer` is set if it had to be read. `serves` is as in
    `BaseFile`.
    """

    path: str
    kind: RunKind
    instant: str
    ordered: bool
    partial: bool = False
    is_base: bool = False
    offset: int = 0
    length: int | None = None
    delete_instants: DeleteInstants | None = field(default=None, repr=False)
    avro_schema: str | None = field(default=None, repr=False)
    footer: ParquetFooter | None = field(default=None, repr=False, compare=False)
    serves: tuple[str, ...] | None = None

    @property
    def is_parquet(self) -> bool:
        """Return whether the bytes of the run are a Parquet file, with a footer."""
        if self.kind is RunKind.DELETES:
            return self.length is None
        return self.avro_schema is None

    @property
    def oldest_instant(self) -> str:
        """Return an instant that no row or delete of the run is older than."""
        if self.delete_instants is not None:
            return self.delete_instants.oldest
        if self.kind is RunKind.DELETES and self.footer is not None:
            # A native file with a column of commit times was merged from several commits.
            return "" if COMMIT_TIME in self.footer.schema.names else self.instant
        return self.instant

    @property
    def name(self) -> str:
        """Return the name of the run for error messages."""
        if self.is_base:
            return f"base file {self.path!r}"
        place = "" if self.length is None else f", block content at byte {self.offset}"
        return f"log file {self.path!r}{place}"
