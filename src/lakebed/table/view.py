"""One view of a table: what reading and writing its files must know, as a value.

It is settled on the driver and travels to workers. Which files count is the snapshot's business
(`snapshot.py`), which hands out the view together with the file slices.
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
    """A table as of one moment: where it lies, how it is configured, what is committed.

    `schema` holds the table's columns without meta columns, and `schema_text` the same as Avro,
    where a commit has recorded it. `own_buffer_bytes` replaces the table's setting for this view.
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

        UnsupportedError for a merge mode that needs a merger of the caller's own: so ask only
        where rows must be merged, and before the work is handed out.
        """
        return merge_rule(self.config, self.merger, schema_text=self.schema_text)

    @cached_property
    def avro_schema(self) -> str:
        """Return the schema as Avro, for the headers of log files."""
        return self.schema_text or arrow_to_avro(self.schema, self.config.name)

    def is_visible(self, instant: str) -> bool:
        """Whether what `instant` wrote counts."""
        return self.timeline.is_committed(instant)
