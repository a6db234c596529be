"""Record keys of a table without key columns: its writer generates them, as Hudi does.

Each new row gets `<write>_<task>_<row>`. A row that was read from the table has its key in
`_hoodie_record_key`, so it can be updated or deleted.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import KeyValueError, SchemaError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.model.executor import TaskId
from lakebed.table.config.table_config import TableConfig
from lakebed.write.spec.operation import Kind
from lakebed.write.spec.write_spec import WriteSpec


def makes_keys(config: TableConfig) -> bool:
    """Return whether a table has no key columns."""
    return not config.record_key_fields


def with_keys(
    batches: Iterable[pa.RecordBatch], spec: WriteSpec, task: TaskId
) -> Iterator[pa.RecordBatch]:
    """Yield the rows, each with a record key: the key that it has, or a new one."""
    start = 0
    for batch in batches:
        numbers = np.arange(start, start + batch.num_rows, dtype=np.int64)
        start += batch.num_rows
        if makes_keys(spec.config):
            yield _with_key(batch, numbers, spec, task)
        else:
            yield batch


def _with_key(
    batch: pa.RecordBatch, numbers: np.ndarray, spec: WriteSpec, task: TaskId
) -> pa.RecordBatch:
    held = batch.schema.get_field_index(RECORD_KEY)
    brought = None if held < 0 else batch.column(held).cast(pa.string())
    if spec.operation.kind is not Kind.ROWS and (brought is None or brought.null_count):
        raise KeyValueError(
            f"table {spec.config.name!r} generates its record keys: a row to delete or change needs "
            f"its {RECORD_KEY}, as a read of the table returns it"
        )
    if brought is not None and not brought.null_count:
        return batch.set_column(held, RECORD_KEY, brought)
    prefix = f"{spec.seed}_{task.partition}"
    made = pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "_")
    if brought is None:
        return batch.append_column(RECORD_KEY, made)
    return batch.set_column(held, RECORD_KEY, pc.coalesce(brought, made))


def key_column(batch: pa.RecordBatch) -> pa.StringArray:
    """Return the record keys of a batch that `with_keys` has yielded."""
    position = batch.schema.get_field_index(RECORD_KEY)
    if position < 0:
        raise SchemaError(
            f"column {RECORD_KEY!r} is missing in rows of a table without key columns"
        )
    return batch.column(position)
