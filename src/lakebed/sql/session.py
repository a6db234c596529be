"""What every statement needs: the Spark session or none, the catalogue, and the form of results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakebed.api.table import Table
from lakebed.errors import UnsupportedError
from lakebed.sql.names import Names
from lakebed.sql.syntax.parameters import parameter_names
from lakebed.write.spec.commit_summary import Commit

COUNTS = pa.schema(
    [
        ("num_inserted_rows", pa.int64()),
        ("num_updated_rows", pa.int64()),
        ("num_deleted_rows", pa.int64()),
        ("num_rows", pa.int64()),
        ("instant", pa.string()),
    ]
)
"""The row that INSERT, UPDATE, DELETE and MERGE return; counts that are not known are null."""
DONE = pa.schema([("result", pa.string())])
"""The row that other statements return."""


@dataclass(slots=True)
class Session:
    """One call: where statements run, and the values of their parameters."""

    catalog: Names
    parameters: Mapping[str, object] = field(default_factory=dict)

    def used(self, text: str) -> dict[str, object]:
        """Return the parameters in a part of the statement, which was checked as a whole."""
        names = parameter_names(text)
        return {name: value for name, value in self.parameters.items() if name in names}

    @property
    def spark(self) -> Any | None:
        """Return the Spark session; None to work in this process."""
        return self.catalog.spark

    def table(self, name: Sequence[str]) -> Table:
        """Open a table."""
        return self.catalog.table(name)

    def result(self, rows: pa.Table) -> Any:
        """Return rows of this process as a DataFrame, or without Spark as a RecordBatchReader."""
        if self.spark is None:
            return rows.to_reader()
        return self.spark.createDataFrame(rows)

    def done(self, sentence: str) -> Any:
        """Return the result of a statement that has no rows."""
        return self.result(pa.table({"result": [sentence]}, schema=DONE))

    def counts(self, commit: Commit | None, rows: int | None = None) -> Any:
        """Return the counts of a write as one row."""
        row: dict[str, object] = dict.fromkeys(COUNTS.names)
        if commit is None:
            row.update(num_inserted_rows=0, num_updated_rows=0, num_deleted_rows=0, num_rows=0)
        else:
            row.update(
                num_inserted_rows=commit.inserted,
                num_updated_rows=commit.updated,
                num_deleted_rows=commit.deleted,
                num_rows=_total(commit) if rows is None else rows,
                instant=commit.instant,
            )
        return self.result(pa.Table.from_pylist([row], schema=COUNTS))

    def needs_spark(self, what: str) -> UnsupportedError:
        """Return the error for a part of a statement that this process does not execute."""
        return UnsupportedError(
            f"SQL: {what} needs a Spark session: lakebed.sql(spark, ...); in process, SELECT reads "
            "one table with expressions, WHERE, GROUP BY, ORDER BY and LIMIT"
        )


def _total(commit: Commit) -> int | None:
    """Return the number of rows that a write changed; None if it did not look all of them up."""
    counts = (commit.inserted, commit.updated, commit.deleted)
    return None if None in counts else sum(count or 0 for count in counts)
