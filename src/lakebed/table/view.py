"""One view of a table: the values that are needed to read and write its files.

It is created on the driver and pickled to workers. The snapshot (`snapshot.py`) decides which files
are visible, and provides the view together with the file slices.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from lakebed.format.avro.avro_schema import arrow_to_avro
from lakebed.groups.definition import ColumnGroups
from lakebed.merge.rule import Merger, MergeRule
from lakebed.storage.storage import Storage
from lakebed.table.config.merge_mode import MergeMode
from lakebed.table.config.merge_rule import merge_rule
from lakebed.table.config.table_config import TableConfig
from lakebed.timeline.timeline import Timeline


@dataclass(frozen=True)
class TableView:
    """A table as of one point in time: its storage, configuration and committed instants.

    `schema` holds the table's columns without meta columns, and `schema_text` the same as Avro, if
    a commit has recorded it. `own_buffer_bytes` overrides the table's setting for this view.
    `column_groups` are empty in an ordinary table, and in the view of one group.
    """

    storage: Storage
    config: TableConfig
    timeline: Timeline
    schema: pa.Schema
    schema_text: str | None = None
    merger: Merger | None = None
    own_buffer_bytes: int | None = None
    column_groups: ColumnGroups = field(default_factory=ColumnGroups)

    @property
    def buffer_bytes(self) -> int:
        """Return how many bytes of each run a reader may hold."""
        return self.own_buffer_bytes or self.config.read_buffer_bytes

    @cached_property
    def rule(self) -> MergeRule:
        """Return the rule by which versions of a key are merged.

        Raises UnsupportedError for a merge mode that needs a custom merger; so this is called only
        if rows must be merged, and before the work is distributed.
        """
        return merge_rule(self.config, self.merger, schema_text=self.schema_text)

    @cached_property
    def avro_schema(self) -> str:
        """Return the schema as Avro, for the headers of log files."""
        return self.schema_text or arrow_to_avro(self.schema, self.config.name)

    def of_group(self, name: str) -> "TableView":
        """Return the view of one column group as a table of its own: its columns and ordering."""
        groups = self.column_groups
        if not groups:
            return self
        ordering = groups.ordering_of(name)
        mode = MergeMode.EVENT_TIME_ORDERING if ordering else MergeMode.COMMIT_TIME_ORDERING
        return replace(
            self,
            config=replace(self.config, ordering_fields=ordering, merge_mode=mode),
            schema=pa.schema(
                [self.schema.field(c) for c in groups.columns_of(name, self.schema.names)]
            ),
            schema_text=None,
            column_groups=ColumnGroups(),
        )

    def is_visible(self, instant: str) -> bool:
        """Return whether rows written by `instant` are visible."""
        return self.timeline.is_committed(instant)
