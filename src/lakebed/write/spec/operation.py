"""The write operations, and what each does to existing rows."""

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The kind of rows in a write."""

    ROWS = "rows"  # complete rows
    UPDATE_COLUMNS = "update_columns"  # a key and some columns; the others keep their values
    DELETE = "delete"  # keys to delete
    NONE = "none"  # no rows at all: partitions are deleted


@dataclass(frozen=True, slots=True)
class Operation:
    """One of the public operations, under Hudi's name."""

    name: str
    kind: Kind = Kind.ROWS
    # Which file groups it replaces: those of the partitions that it writes, or all.
    replaces_partitions: bool = False
    replaces_all: bool = False
    # Whether the columns of the rows replace the table's: then no old file stays visible.
    replaces_columns: bool = False

    @property
    def replaces(self) -> bool:
        """Return whether the operation writes a replacecommit."""
        return self.replaces_partitions or self.replaces_all or self.kind is Kind.NONE


BULK_INSERT = Operation("BULK_INSERT")
INSERT = Operation("INSERT")
UPSERT = Operation("UPSERT")
DELETE = Operation("DELETE", Kind.DELETE)
# Hudi has no operation for a partial update: its MERGE INTO writes one as an upsert.
UPDATE_COLUMNS = Operation("UPSERT", Kind.UPDATE_COLUMNS)
INSERT_OVERWRITE = Operation("INSERT_OVERWRITE", replaces_partitions=True)
INSERT_OVERWRITE_TABLE = Operation("INSERT_OVERWRITE_TABLE", replaces_all=True)
OVERWRITE = Operation("INSERT_OVERWRITE_TABLE", replaces_all=True, replaces_columns=True)
ALTER_SCHEMA = Operation("ALTER_SCHEMA", Kind.NONE)
DELETE_PARTITION = Operation("DELETE_PARTITION", Kind.NONE)
