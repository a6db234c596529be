"""The changes between the rows of an old base file and those of its replacement.

Both inputs are in ascending key order, each key once, and are compared window by window. A row is
unchanged if its commit time and sequence number are the same, so an update that changes no value
still counts as a change, as in Hudi. Columns are compared only where a losing row can supply values
to the winner.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.format.logs.cdc import ChangeOp
from lakebed.format.names.meta_columns import RECORD_KEY, STAMPS
from lakebed.merge.align import SortedRows, rows_upto
from lakebed.merge.equal import equal_values


@dataclass(frozen=True, slots=True)
class Changes:
    """A batch of changes in key order: the operation on each key, and its rows before and after.

    Rows are structs, null where there is no row. `before` or `after` is None if not requested.
    """

    keys: pa.StringArray
    ops: pa.StringArray
    before: pa.StructArray | None
    after: pa.StructArray | None


class ChangeFinder:
    """Compares new rows with old rows, reading old rows only up to the newest key so far.

    All rows have a key, a commit time and a sequence number; a new row without a commit time
    belongs to the commit being written. `before` and `after` are the columns to return of old and
    new rows, None to return no rows. The columns `compared`, present on both sides, are compared
    even for rows of the same commit.
    """

    def __init__(
        self,
        old: Iterable[pa.RecordBatch],
        before: pa.Schema | None,
        after: pa.Schema | None,
        compared: Sequence[str] = (),
    ) -> None:
        self._old = SortedRows(iter(old), RECORD_KEY, _nulls(0, [RECORD_KEY]))
        self._compared = compared
        self._before = before
        self._after = after

    def put(self, new: pa.RecordBatch) -> Iterator[Changes]:
        """Yield the changes up to the last key of `new`, whose keys are above all previous keys."""
        while new.num_rows:
            last = self._old.last_key()
            if last is None:
                yield self._written(new, None)
                return
            keys = new.column(RECORD_KEY)
            bound = min(last, keys[-1].as_py())
            end = rows_upto(keys, bound)
            yield from self._compare(self._old.take(bound), new.slice(0, end))
            new = new.slice(end)

    def finish(self) -> Iterator[Changes]:
        """Yield a delete for each old row that is left."""
        while self._old.last_key() is not None:
            yield self._gone(self._old.take(None))

    def _compare(self, old: pa.RecordBatch, new: pa.RecordBatch) -> Iterator[Changes]:
        """Compare two windows over the same keys."""
        at = pc.index_in(new.column(RECORD_KEY), value_set=old.column(RECORD_KEY))
        gone = np.ones(old.num_rows, np.bool_)
        gone[at.drop_null().to_numpy()] = False
        changed = pc.invert(_is_same(old, new, at, self._compared))
        parts = []
        if changed.true_count:
            parts.append(self._written(new.filter(changed), old.take(at.filter(changed))))
        if gone.any():
            parts.append(self._gone(old.filter(pa.array(gone))))
        if parts:
            yield parts[0] if len(parts) == 1 else _in_key_order(parts)

    def _written(self, new: pa.RecordBatch, old: pa.RecordBatch | None) -> Changes:
        """Return an insert or update for each new row; `old` holds the old rows, null if none."""
        if old is None:
            old = _nulls(new.num_rows, [RECORD_KEY, *(self._before or ())])
        there = pc.is_valid(old.column(RECORD_KEY))
        return Changes(
            new.column(RECORD_KEY),
            pc.if_else(there, ChangeOp.UPDATE.value, ChangeOp.INSERT.value),
            _images(old, self._before, pc.invert(there)),
            _images(new, self._after),
        )

    def _gone(self, old: pa.RecordBatch) -> Changes:
        after = None if self._after is None else pa.nulls(old.num_rows, pa.struct(self._after))
        return Changes(
            old.column(RECORD_KEY),
            pa.repeat(pa.scalar(ChangeOp.DELETE.value), old.num_rows),
            _images(old, self._before),
            after,
        )


def each_once(batches: Iterable[pa.RecordBatch], what: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches unchanged; raise UnsupportedError if a key occurs twice."""
    last: str | None = None
    for batch in batches:
        keys = batch.column(RECORD_KEY)
        again = pc.equal(keys.slice(0, max(0, len(keys) - 1)), keys.slice(1))
        if last is not None and len(keys) and last == keys[0].as_py():
            raise _twice(what, last)
        if pc.any(again, min_count=0).as_py():
            raise _twice(what, keys[pc.index(again, pa.scalar(True)).as_py()].as_py())
        last = keys[-1].as_py() if len(keys) else last
        yield batch


def _twice(what: str, key: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what}: key {key!r} occurs more than once, so its changes are ambiguous. Read snapshots, "
        "or read incrementally; delete the key before a write that logs changes"
    )


def _is_same(
    old: pa.RecordBatch, new: pa.RecordBatch, at: pa.Int32Array, compared: Sequence[str]
) -> pa.BooleanArray:
    """Return whether each new row is the old row at its position in `at`, unchanged."""
    equal = [pc.equal(new.column(name), old.column(name).take(at)) for name in STAMPS]
    same = pc.fill_null(pc.and_(*equal), False)
    for name in compared:
        same = pc.and_(same, equal_values(old.column(name).take(at), new.column(name)))
    return same


def _images(
    rows: pa.RecordBatch, schema: pa.Schema | None, nulls: pa.BooleanArray | None = None
) -> pa.StructArray | None:
    """Return rows as structs, null where `nulls` is true."""
    if schema is None:
        return None
    columns = [rows.column(name) for name in schema.names]
    return pa.StructArray.from_arrays(columns, fields=list(schema), mask=nulls)


def _nulls(rows: int, fields: Iterable[pa.Field | str]) -> pa.RecordBatch:
    columns = {
        f if isinstance(f, str) else f.name: pa.nulls(
            rows, pa.string() if isinstance(f, str) else f.type
        )
        for f in fields
    }
    return pa.RecordBatch.from_pydict(columns)


def _in_key_order(parts: list[Changes]) -> Changes:
    keys = pa.concat_arrays([part.keys for part in parts])
    order = pc.sort_indices(keys)

    def joined(arrays: list[pa.StructArray | None]) -> pa.StructArray | None:
        there = [array for array in arrays if array is not None]
        return pa.concat_arrays(there).take(order) if there else None

    return Changes(
        keys.take(order),
        pa.concat_arrays([part.ops for part in parts]).take(order),
        joined([part.before for part in parts]),
        joined([part.after for part in parts]),
    )
