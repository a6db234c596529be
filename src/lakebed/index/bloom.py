"""The Bloom index: a simple index that skips base files whose footers show that they lack a key.

A footer contains the smallest and the greatest key, and a Bloom filter of all keys, in Hudi's
format (`format/index/bloom.py`). A file without a readable filter may hold any key of its range.
Logs have no filters: as with the simple index, logs that may hold keys missing from the base file
are searched.
"""

import logging
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.files.footer import FOOTER_MAX_KEY, FOOTER_MIN_KEY, same_order_in_java
from lakebed.format.index.bloom import FOOTER_BLOOM, FOOTER_BLOOM_TYPE, parse_bloom
from lakebed.index.simple import BaseFileStrategy, SimpleLocator
from lakebed.index.strategy import Locator, NewWrite
from lakebed.table.config.writer_index import BloomIndex
from lakebed.table.read.pages.paged_file import ParquetFooter
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.run_source import RunSource
from lakebed.table.view import TableView

log = logging.getLogger(__name__)

# For more keys than this, reading the keys of the file is faster than testing the filter, which
# very likely matches one of them.
_MIN_TESTED = 10_000
_ROWS_PER_TEST = 8


@dataclass(frozen=True, slots=True)
class BloomStrategy(BaseFileStrategy):
    """The strategy that looks up keys in the base files whose Bloom filters match them."""

    value: BloomIndex
    needs_keys: ClassVar[bool] = True

    def locator(self, write: NewWrite) -> Locator:
        """Return the locator of a write."""
        return BloomLocator()


@dataclass(frozen=True, slots=True)
class BloomLocator(SimpleLocator):
    """Finds the file groups of a write's keys in the base files whose filters match them."""

    def narrow(
        self, view: TableView, source: RunSource, keys: pa.StringArray
    ) -> tuple[RunSource, pa.StringArray]:
        """Return a base file with its footer, and those of `keys` that the footer allows."""
        footer = source.footer
        if footer is None:
            with open_parquet(view.storage, source.path, source.name) as file:
                footer = file.footer
        wanted = _in_range(footer, keys)
        text = footer.key_values.get(FOOTER_BLOOM)
        most = max(_MIN_TESTED, footer.metadata.num_rows // _ROWS_PER_TEST)
        if text is not None and 0 < len(wanted) <= most:
            kind = footer.key_values.get(FOOTER_BLOOM_TYPE, "")
            try:
                bloom = parse_bloom(text, kind, source.name)
            except (CorruptError, UnsupportedError) as error:
                log.warning("%s; all keys of the file are read instead", error)
            else:
                wanted = wanted.filter(pc.invert(bloom.missing(wanted)))
        return replace(source, footer=footer), wanted


def _in_range(footer: ParquetFooter, keys: pa.StringArray) -> pa.StringArray:
    low, high = (footer.key_values.get(name) for name in (FOOTER_MIN_KEY, FOOTER_MAX_KEY))
    if low is None or high is None or not same_order_in_java(low + high):
        return keys
    rows = range(len(keys))
    start = bisect_left(rows, low, key=lambda row: keys[row].as_py())
    end = bisect_right(rows, high, key=lambda row: keys[row].as_py())
    return keys.slice(start, max(0, end - start))
