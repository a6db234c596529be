"""The simple index: the base files themselves tell which file group holds a key.

Hudi's simple and global simple index look at base files only. A key that is not in one is
new and goes to a base file; whatever comes later for it goes to that file's group. A key may lie
in several file groups, because a plain insert looks nothing up.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from uuid import UUID, uuid5

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.format.meta_columns import RECORD_KEY
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import Run
from lakebed.merge.window import merge_runs
from lakebed.storage.storage import Storage
from lakebed.table.config import TableConfig
from lakebed.table.file_group import FileSlice
from lakebed.table.log_reader import slice_sources
from lakebed.table.property_values import flag
from lakebed.table.run_reader import Needs, open_run
from lakebed.table.run_source import RunSource

# The column that says where a key is: numbers of file slices, joined by commas.
PLACES = "_lakebed_places"
PLACES_SCHEMA = pa.schema([pa.field(RECORD_KEY, pa.string()), pa.field(PLACES, pa.string())])

_UPDATE_PARTITION = "hoodie.simple.index.update.partition.path"
# Keys alone are small, and there may be many files.
_BUFFER_BYTES = 1 << 20

Numbers = npt.NDArray[np.int64]


def moves_rows(config: TableConfig) -> bool:
    """Tell whether a row whose partition changed moves there; else it stays where it was."""
    return flag(config.properties, _UPDATE_PARTITION, default=True)


def new_file_id(partition: str, number: int, seed: str) -> str:
    """Give the id of the new file group `number` of a partition, as Hudi spells them.

    It follows from the write's own random `seed`, so a task that runs twice gives the same.
    """
    return f"{uuid5(UUID(seed), f'{partition}/{number}')}-0"


def indexed_slices(slices: Iterable[FileSlice]) -> list[FileSlice]:
    """Give the slices that the index looks at, in the order in which places number them.

    Damaged ones are left out: a write that would have to look into one is refused.
    """
    return [slice_ for slice_ in slices if slice_.base_file is not None and not slice_.damage]


def key_runs(storage: Storage, config: TableConfig, slices: Sequence[FileSlice]) -> list[Run]:
    """Give for each of `slices`, which have base files, a run of its keys and its number.

    Files are opened when they are read. One that is not marked as sorted is sorted in memory.
    """
    return [_key_run(storage, config, slice_, number) for number, slice_ in enumerate(slices)]


def _key_run(storage: Storage, config: TableConfig, slice_: FileSlice, number: int) -> Run:
    base = replace(slice_, log_files=(), boundary=None)
    needs = Needs((), buffer_bytes=_BUFFER_BYTES)

    def keys(source: RunSource) -> Iterator[pa.RecordBatch]:
        place = pa.scalar(str(number))
        for batch in open_run(storage, source, needs).batches:
            columns = [batch.column(RECORD_KEY), pa.repeat(place, batch.num_rows)]
            yield pa.RecordBatch.from_arrays(columns, schema=PLACES_SCHEMA)

    def batches() -> Iterator[pa.RecordBatch]:
        sources = slice_sources(storage, base, config, lambda _: True)
        if len(sources) == 1:
            yield from keys(sources[0])
            return
        # A late row of a key with a tombstone belongs where the tombstone is.
        runs = [Run(source.name, keys(source)) for source in sources]
        yield from merge_runs(runs, MergeRule(), PLACES_SCHEMA)

    assert base.base_file is not None, slice_
    return Run(f"base file {base.base_file.path!r}", batches())


def _join_places(older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
    places = pc.binary_join_element_wise(older.column(PLACES), newer.column(PLACES), ",")
    at = newer.schema.get_field_index(PLACES)
    return newer.set_column(at, newer.schema.field(at), places)


PLACES_RULE = MergeRule(merger=_join_places)
"""Merges runs of keys and places: a key that several files hold gets all their numbers."""


def explode_places(places: pa.StringArray) -> tuple[Numbers, Numbers]:
    """Give (row, place) for every place of every row; -1 is the place of a row without any.

    A row whose text names a place twice gives it once. Rows ascend.
    """
    texts = pc.if_else(pc.equal(places, ""), pa.scalar(None, pa.string()), places)
    none = np.flatnonzero(texts.is_null().to_numpy(zero_copy_only=False))
    lists = pc.split_pattern(texts, ",")
    rows = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    try:
        numbers = pc.list_flatten(lists).cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise CorruptError(f"places of keys: want numbers of file slices: {error}") from error
    pairs = np.unique(
        np.stack([np.append(rows, none), np.append(numbers, np.full(none.size, -1))]), axis=1
    )
    return pairs[0], pairs[1]
