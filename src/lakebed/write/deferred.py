"""Rows that are staged before their write has started.

Spark's data source first distributes rows to tasks and calls the driver once, at the end; no
process could hold the table's lock, or keep an instant alive, in between. So tasks stage their rows
under a separate name (`.hoodie/.temp/lakebed/deferred/<milliseconds>-<uuid>-...`, which readers and
other writers ignore), using the table's configuration at that time. When the write starts, it
checks that this configuration still applies, and takes over the runs.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from lakebed.commit.fence import Fence
from lakebed.commit.rollback import TEMP_FOLDER
from lakebed.errors import ConflictError, SchemaError, UnsupportedError
from lakebed.index.default_index import default_index
from lakebed.model.executor import TaskId
from lakebed.storage.storage import Storage
from lakebed.table.config.partitions import partition_column
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import WriterIndex
from lakebed.table.snapshot import Snapshot
from lakebed.write.beginning import make_spec
from lakebed.write.pipeline import Source, WriteTarget
from lakebed.write.spec.intake import Intake
from lakebed.write.spec.operation import Operation
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import LogPolicy, Segment, Staged, stage_runs

_FOLDER: Final = "deferred"
_NAME: Final = re.compile(r"(?P<ms>[0-9]{10,16})-")
ABANDONED_MS: Final = 7 * 24 * 3600 * 1000
"""Rows of a write that has not started after this time are abandoned; no job runs that long."""


@dataclass(frozen=True, slots=True)
class DeferredWrite:
    """A future write, with everything that its tasks need to stage rows; pickled to the tasks."""

    spec: WriteSpec
    incoming: pa.Schema
    # The index, if the caller named one for a table without a stored index.
    named: WriterIndex | None = None
    # Whether the rows replace an empty table: then they are not added to rows that another write
    # has committed first.
    onto_nothing: bool = False
    # The stream that the rows are from, or "".
    owner: str = ""
    intake: Intake = field(default_factory=Intake)

    def stage(self, batches: Iterable[pa.RecordBatch], task: TaskId) -> list[Segment]:
        """Write the rows of one task as sorted runs."""
        staged = stage_runs(batches, self.spec, task, LogPolicy(direct=False))
        return [segment for segment in staged if isinstance(segment, Segment)]

    def source(self, segments: Iterable[Segment]) -> Source:
        """Return the staged rows as the source of a write; the write can be retried."""
        held = list(segments)

        def stage(spec: WriteSpec, snapshot: Snapshot) -> Iterator[Staged]:
            self._check_same(spec)
            if self.onto_nothing and snapshot.timeline.commits:
                raise ConflictError(
                    f"{spec.storage.url}: expected an empty table to overwrite, found rows of a "
                    "write that committed while these were staged; run the write again"
                )
            return (_settled(segment, spec) for segment in held)

        return Source(self.incoming, stage, repeatable=True, intake=self.intake)

    def delete(self) -> None:
        """Delete every run of the write, including runs of tasks that failed or ran twice."""
        self._delete(self.spec.instant.rpartition("/")[2])

    def delete_all(self) -> None:
        """Delete every run of the write and, if it is a batch of a stream, of all its attempts.

        A stream stages one batch at a time, so once a batch is committed, whatever else it has
        staged was left by a process that died.
        """
        self.delete()
        if self.owner:
            self._delete(f"-{self.owner}-")

    def _delete(self, part: str) -> None:
        folder = f"{TEMP_FOLDER}/{_FOLDER}"
        for name in self.spec.storage.names(folder):
            if part in name:
                self.spec.storage.delete(f"{folder}/{name}")

    def _check_same(self, spec: WriteSpec) -> None:
        """Raise an error if the table has changed since the rows were staged."""
        if _facts(spec) != _facts(self.spec) or not self.spec.index.agrees(spec.index):
            raise ConflictError(
                f"{spec.storage.url}: the table's columns, keys or index changed while the rows were "
                "staged; run the write again"
            )


def defer_write(
    target: WriteTarget,
    snapshot: Snapshot,
    operation: Operation,
    incoming: pa.Schema,
    intake: Intake,
    named: WriterIndex | None = None,
    owner: str = "",
) -> DeferredWrite:
    """Return the write that tasks use to stage rows of `incoming`; nothing is written.

    `owner` identifies a stream, which deletes what its earlier attempts staged.
    """
    index = snapshot.config.index
    if index is None or (not index.is_settled and (named or snapshot.slices)):
        index = named or default_index(snapshot)
    if not index.allows_deferred:
        raise UnsupportedError(
            f"table {snapshot.config.name!r} is written with {index!r}: format lakebed cannot place "
            "rows there; call lakebed.open_table(spark, path) and its upsert or insert"
        )
    mark = f"{owner}-" if owner else ""
    name = f"{_FOLDER}/{target.clock.now_ms()}-{mark}{target.clock.new_uuid()}"
    fence, seed = Fence(target.storage, name, ""), target.clock.new_uuid()
    spec = make_spec(snapshot, operation, index, incoming, intake, target.merger, fence, seed)
    return DeferredWrite(spec, incoming, named, owner=owner, intake=intake)


def partitions_of(batches: Iterable[pa.RecordBatch], config: TableConfig) -> frozenset[str]:
    """Return the partitions of the rows; raise SchemaError if a partition column is missing."""
    found: set[str] = set()
    for batch in batches:
        missing = [name for name in config.partition_fields if name not in batch.schema.names]
        if missing:
            raise SchemaError(
                f"partition column {missing[0]!r} is missing; the input has "
                f"{', '.join(batch.schema.names)}"
            )
        found.update(partition_column(batch, config).unique().to_pylist())
    return frozenset(found)


def find_abandoned(storage: Storage, now_ms: int) -> list[str]:
    """List runs that were staged so long ago that their writes will never start."""
    folder = f"{TEMP_FOLDER}/{_FOLDER}"
    found = []
    for name in storage.names(folder):
        age = _NAME.match(name)
        if age is not None and int(age["ms"]) < now_ms - ABANDONED_MS:
            found.append(f"{folder}/{name}")
    return found


def _facts(spec: WriteSpec) -> tuple[object, ...]:
    """Return everything that affects the staged runs, except the index."""
    config = spec.config
    return (
        spec.schema,
        spec.view.avro_schema,
        spec.markers,
        spec.rule,
        spec.operation,
        config.record_key_fields,
        config.key_generator,
        config.partition_fields,
        config.partition_style,
        config.timestamp_keygen,
    )


def _settled(segment: Segment, spec: WriteSpec) -> Segment:
    """Return a staged run, assigned to the file group that the started write uses."""
    if segment.file_id is None:
        return segment
    return replace(segment, file_id=spec.locator.adopted(segment.partition, segment.file_id))
