"""The runs of slices, kept between lookups, with their parsed footers."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import TypeVar, cast

from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.pages.sorted_keys import HeldColumns
from lakebed.table.read.run_source import RunSource

T = TypeVar("T")

MAX_BYTES = 64 << 20
"""The memory limit for footers; a second limit of the same size applies to keys."""

# The approximate memory of a parsed footer per byte, with the places of its pages.
_PARSED_RATIO = 8


class SourceCache:
    """A cache of runs by slice, valid for one state of a timeline; evicts the least recently used."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[FileSlice, tuple[Sequence[RunSource], int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()
        self._columns = HeldColumns(max_bytes)
        self._answers: dict[str, object] = {}

    def get(
        self, slice_: FileSlice, find: Callable[[], Sequence[RunSource]]
    ) -> Sequence[RunSource]:
        """Return the runs of `slice_`, calling `find` if they are not in the cache."""
        with self._lock:
            held = self._held.get(slice_)
            if held is not None:
                self._held.move_to_end(slice_)
                return held[0]
        sources = [self._with_columns(source) for source in find()]
        size = sum(
            source.footer.metadata.serialized_size * _PARSED_RATIO
            for source in sources
            if source.footer is not None
        )
        with self._lock:
            if slice_ not in self._held:
                self._held[slice_] = (sources, size)
                self._bytes += size
            while self._bytes > self._max_bytes and len(self._held) > 1:
                self._bytes -= self._held.popitem(last=False)[1][1]
        return sources

    def answer(self, question: str, find: Callable[[], T]) -> T:
        """Return the cached answer to a question about the table, calling `find` the first time."""
        if question not in self._answers:
            self._answers[question] = find()
        return cast("T", self._answers[question])

    def _with_columns(self, source: RunSource) -> RunSource:
        """Attach the cache of key columns to a run: each lookup searches them in every log."""
        if source.footer is None:
            return source
        return replace(source, footer=replace(source.footer, columns=self._columns))
