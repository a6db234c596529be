"""Rows sorted and merged in one step, as the reference for merges of several runs."""

import pyarrow as pa

from lakebed.merge import tree
from lakebed.merge.arrays import Ints, int64_array
from lakebed.merge.order import MergeRule, _order
from lakebed.merge.run import FLAGS, Run
from lakebed.merge.versions import check_rule, resolve, to_part


def sort_rows(rows: pa.RecordBatch, rule: MergeRule, subset: Ints | None = None) -> pa.RecordBatch:
    """Return `rows`, or those in `subset`, in ascending order of key bytes, one per key.

    `rows` are in order of arrival. If they have flags, deletes are folded too; a deleted key is
    kept with only its ordering values.
    """
    if subset is not None:
        rows = rows.take(int64_array(subset))
    schema = pa.schema([field for field in rows.schema if field.name != FLAGS])
    check_rule(rule, schema)
    merged = resolve(
        [to_part(rows, schema, Run("rows", ()), rule.key)],
        _order(rows.column(rule.key)),
        rule,
        keep_deletes=FLAGS in rows.schema.names,
        kernel=tree.use_kernel(0),
    )
    return merged.select(rows.schema.names)
