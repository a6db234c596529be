"""Raises a column group's copies of the table's ordering column to those that it stores already.

A merge or an update reads the table's ordering column from the default group. The copy that another
group stores for the same row may be greater, because a write of that group alone brought it. The
new version of the row, written with the lower value, would lose there to the one that was read.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.names.meta_columns import OUR_PREFIX, RECORD_KEY
from lakebed.merge.ranks import ordering_ranks
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import FLAGS, Run
from lakebed.merge.window import merge_runs
from lakebed.table.files.file_group import FileSlice
from lakebed.write.locate import CAME, mark
from lakebed.write.partial import existing_rows
from lakebed.write.spec.write_spec import WriteSpec


def raise_copies(
    spec: WriteSpec, slice_: FileSlice, rows: Iterable[pa.RecordBatch], count: int
) -> Iterator[pa.RecordBatch]:
    """Yield `rows`, sorted and with unique keys, with copies that do not lose to those of `slice_`.

    `slice_` has the files of the column group of `spec`; `count` is the number of rows.
    """
    ordering = spec.rule.ordering_fields
    stored = {name: f"{OUR_PREFIX}stored_{name}" for name in ordering}
    there, rows = existing_rows(spec, slice_, [RECORD_KEY, *ordering], rows, count)
    runs = [
        Run("the existing rows", (b.rename_columns([RECORD_KEY, *stored.values()]) for b in there)),
        Run("the input", map(mark, rows), partial=True),
    ]
    fields = [
        pa.field(RECORD_KEY, pa.string()),
        pa.field(CAME, pa.uint8()),
        *(field.with_nullable(True) for field in spec.schema),
        *(pa.field(name, spec.schema.field(of).type) for of, name in stored.items()),
    ]
    flags = [FLAGS] if spec.may_delete else []
    for batch in merge_runs(runs, MergeRule(), pa.schema(fields)):
        came = batch.filter(batch.column(CAME).is_valid())
        if not came.num_rows:
            continue
        named = came.rename_columns([FLAGS if n == CAME else n for n in came.schema.names])
        columns = {name: named.column(name) for name in (RECORD_KEY, *flags, *spec.schema.names)}
        new, old = ([named.column(n) for n in names] for names in (stored, stored.values()))
        lower = pa.array(_is_lower(new, old))
        for name, given, held in zip(stored, new, old, strict=True):
            columns[name] = pc.if_else(lower, held, given)
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _is_lower(new: list[pa.Array], old: list[pa.Array]) -> np.ndarray:
    """Return whether the first value that differs is lower; null is lower than anything."""
    count = len(new[0])
    pairs = [pa.concat_arrays([one, other]) for one, other in zip(new, old, strict=True)]
    lower, equal = np.zeros(count, dtype=np.bool_), np.ones(count, dtype=np.bool_)
    for ranks in ordering_ranks(pairs, 2 * count):
        lower |= equal & (ranks[:count] < ranks[count:])
        equal &= ranks[:count] == ranks[count:]
    return lower
