"""Checks whether the rows of a range can be represented in the table's current columns.

A write that replaces all rows may change the type of a column (`mode("overwrite")` of the data
source). Older files are intact, but their values do not fit the new column.
"""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lakebed.errors import SchemaError, UnsupportedError
from lakebed.format.avro.avro_schema import avro_to_arrow
from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.instant import Instant
from lakebed.table.changes.commit_range import RangeCommit
from lakebed.table.read.projection import shape
from lakebed.table.snapshot import Snapshot


def check_column_types(
    snapshot: Snapshot,
    commits: Sequence[RangeCommit],
    written_by: Iterable[Instant],
    columns: Sequence[str],
) -> None:
    """Raise UnsupportedError if files of `written_by` have a column whose type was replaced.

    `commits` are the commits of the range. The error names the commit that changed the type.
    """
    schemas = _schemas(snapshot, commits)
    target = pa.schema([snapshot.schema.field(n) for n in columns if n not in META_COLUMNS])
    checked = {snapshot.schema_text}
    for instant in sorted(set(written_by) & schemas.keys()):
        completion, text = schemas[instant]
        if text in checked:
            continue
        checked.add(text)
        why = _misfit(text, target)
        if why is None:
            continue
        later = sorted((done, by) for by, (done, _) in schemas.items() if done > completion)
        changed = next(
            ((done, by) for done, by in later if _misfit(text, _of(schemas[by][1], target))),
            None,
        )
        if changed is None:
            raise UnsupportedError(f"changes of {instant}: {why}; leave the column out of columns=")
        raise UnsupportedError(
            f"changes of {instant}: commit {changed[1]} has since replaced columns ({why}), "
            f"so older rows cannot be shown; start with since={changed[0]}, leave the column out of "
            "columns=, or read older snapshots with as_of"
        )


def _schemas(
    snapshot: Snapshot, commits: Sequence[RangeCommit]
) -> dict[Instant, tuple[Instant, str]]:
    """Return the completion time and schema of each known commit, with archived ones of the range."""
    told: list[tuple[Instant, Instant, CommitMetadata]] = [
        (commit.requested, commit.completion or "", snapshot.commits.read(commit))
        for commit in snapshot.timeline.commits
    ]
    told += [(commit.requested, commit.completion, commit.metadata) for commit in commits]
    texts = (
        (by, done, (metadata.extra_metadata or {}).get("schema")) for by, done, metadata in told
    )
    return {by: (done, text) for by, done, text in texts if text}


def _of(text: str, target: pa.Schema) -> pa.Schema:
    """Return the columns of the schema that `target` also has."""
    return pa.schema([field for field in avro_to_arrow(text) if field.name in target.names])


def _misfit(text: str, target: pa.Schema) -> str | None:
    """Return why a column cannot be read with its type in `target`, or None."""
    try:
        shape(pa.RecordBatch.from_pylist([], avro_to_arrow(text)), target)
    except SchemaError as error:
        return str(error)
    return None
