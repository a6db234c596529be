"""One view of a table: the values that are needed to read and write its files.

It is created on the driver and pickled to workers. The snapshot (`snapshot.py`) decides which files
are visible, and provides the view together with the file slices.
"""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lakebed.format.avro.avro_schema import arrow_to_avro
from lakebed.merge.rule import Merger, MergeRule
from lakebed.storage.storage import Storage
from lakebed.table.config.merge_rule import merge_rule
from lakebed.table.config.table_config import TableConfig
from lakebed.timeline.timeline import Timeline


@dataclass(frozen=True)
class TableView:
    """A table as of one point in time: its storage, configuration and committed instants.

    `schema` holds the table's columns without meta columns, and `schema_text` the same as Avro, if
    a commit has recorded it. `own_buffer_bytes` overrides the table's setting for this view.
    """

    storage: Storage
    config: TableConfig
    timeline: Timeline
    schema: pa.Schema
    schema_text: str | None = None
    merger: Merger | None = None
    own_buffer_bytes: int | None = None

    @property
    def buffer_bytes(self) -> int:
        """Return how many bytes of each run a reader may hold."""
        return self.own_buffer_bytes or self.config.read_buffer_bytes

    @cached_property
    def rule(self) -> MergeRule:
        """Return how versions of a key are merged.

        Raises UnsupportedError for a merge mode that needs a custom merger; so this is called only
        if rows must be merged, and before the work is distributed.
        """
        return merge_rule(self.config, self.merger, schema_text=self.schema_text)

    @cached_property
    def avro_schema(self) -> str:
        """Return the schema as Avro, for the headers of log files."""
        return self.schema_text or arrow_to_avro(self.schema, self.config.name)

    def is_visible(self, instant: str) -> bool:
        """Return whether rows written by `instant` are visible."""
        return self.timeline.is_committed(instant)
