"""Checks the keys of one run as a stream: order, range, bucket and meta columns."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.files.footer import (
    FOOTER_MAX_KEY,
    FOOTER_MIN_KEY,
    FOOTER_ROW_GROUP_KEYS,
    parse_row_group_keys,
    same_order_in_java,
)
from lakebed.format.index.bloom import BloomFilter
from lakebed.format.names.meta_columns import FILE_NAME, PARTITION_PATH, RECORD_KEY
from lakebed.index.kinds import strategy_of
from lakebed.services.verify.findings import ADVICE_REWRITE, Code, Finding, Severity
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import FileGroupId
from lakebed.table.read.pages.paged_file import ParquetFooter
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.run_source import RunKind, RunSource


@dataclass(slots=True)
class _Offence:
    """The number of violations of one kind in a run, and the first key affected."""

    times: int = 0
    key: str | None = None
    what: str = ""

    def add(self, times: int, key: str | None, what: str = "") -> None:
        if times and not self.times:
            self.key, self.what = key, what
        self.times += times


@dataclass(slots=True)
class KeyStream:
    """Checks the batches of one run, in file order, and collects the problems.

    `file_name` is the file name expected in the meta column of the rows, `bloom` the filter of the
    footer.
    """

    source: RunSource
    config: TableConfig
    group: FileGroupId
    file_name: str
    bloom: BloomFilter | None = None
    low: str | None = field(default=None, init=False)
    high: str | None = field(default=None, init=False)
    _last: str | None = field(default=None, init=False)
    _falls: _Offence = field(default_factory=_Offence, init=False)
    _repeats: _Offence = field(default_factory=_Offence, init=False)
    _strays: _Offence = field(default_factory=_Offence, init=False)
    _missed: _Offence = field(default_factory=_Offence, init=False)
    _meta: dict[str, _Offence] = field(default_factory=dict, init=False)

    def take(self, batch: pa.RecordBatch) -> None:
        """Check the next rows."""
        keys = batch.column(RECORD_KEY)
        ends = pc.min_max(keys)
        low, high = ends["min"].as_py(), ends["max"].as_py()
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)
        self._take_order(keys)
        self._take_buckets(keys)
        self._take_bloom(keys)
        if self.source.kind is RunKind.DATA:
            self._take_meta(batch, PARTITION_PATH, self.group.partition)
            self._take_meta(batch, FILE_NAME, self.file_name)

    def findings(self) -> Iterator[Finding]:
        """Yield the problems of the whole run."""
        name = self.source.name
        if self.source.ordered and self._falls.times:
            yield self._finding(
                Severity.ERROR,
                Code.KEY_ORDER,
                f"{name}: marked as sorted, but {self._falls.times} keys come after a greater one, "
                f"the first is {self._falls.key!r}; a merge or a lookup would miss rows",
                self._falls,
            )
        if self._repeats.times:
            ordered = self.source.ordered
            yield self._finding(
                Severity.ERROR if ordered else Severity.WARNING,
                Code.KEY_TWICE,
                f"{name}: {self._repeats.times} rows repeat the key before them, the first is "
                f"{self._repeats.key!r}" + ("; a sorted run holds a key once" if ordered else ""),
                self._repeats,
            )
        if self._strays.times:
            yield self._finding(
                Severity.ERROR,
                Code.BUCKET_WRONG,
                f"{name}: {self._strays.times} keys belong to another bucket, the first is "
                f"{self._strays.key!r} of bucket {self._strays.what}; updates of them go elsewhere",
                self._strays,
            )
        if self._missed.times:
            yield self._finding(
                Severity.ERROR,
                Code.BLOOM_FILTER,
                f"{name}: {self._missed.times} keys are not in the Bloom filter of its footer, the "
                f"first is {self._missed.key!r}; Apache Hudi's Bloom index would add them again",
                self._missed,
            )
        for column, offence in self._meta.items():
            if offence.times:
                yield self._finding(
                    Severity.WARNING,
                    Code.META_COLUMN,
                    f"{name}: {offence.times} rows have a wrong {column}, the "
                    f"first is {offence.what!r} with the key {offence.key!r}",
                    offence,
                )

    def _finding(self, severity: Severity, code: Code, message: str, offence: _Offence) -> Finding:
        return Finding(
            severity,
            code,
            message,
            path=self.source.path,
            instant=self.source.instant,
            key=offence.key,
            advice=ADVICE_REWRITE,
        )

    def _take_order(self, keys: pa.StringArray) -> None:
        if self._last is not None:
            keys = pa.concat_arrays([pa.array([self._last], pa.string()), keys.cast(pa.string())])
        self._last = keys[-1].as_py()
        before, after = keys.slice(0, len(keys) - 1), keys.slice(1)
        for offence, wrong in (
            (self._falls, pc.less(after, before)),
            (self._repeats, pc.equal(after, before)),
        ):
            times = wrong.true_count
            if times:
                at = pc.index(wrong, pa.scalar(True)).as_py()
                offence.add(times, after[at].as_py())

    def _take_buckets(self, keys: pa.StringArray) -> None:
        if self.config.index is None:
            return
        index = strategy_of(self.config.index)
        wrong, buckets = index.misplaced_keys(self.config, self.group.file_id, keys)
        if wrong.size:
            self._strays.add(int(wrong.size), keys[int(wrong[0])].as_py(), str(int(buckets[0])))

    def _take_bloom(self, keys: pa.StringArray) -> None:
        if self.bloom is None:
            return
        missing = self.bloom.missing(keys)
        if missing.true_count:
            at = pc.index(missing, pa.scalar(True)).as_py()
            self._missed.add(missing.true_count, keys[at].as_py())

    def _take_meta(self, batch: pa.RecordBatch, column: str, wanted: str) -> None:
        found = batch.column(column)
        # Tables without meta columns have nulls in this column.
        wrong = pc.fill_null(pc.not_equal(found, wanted), False)
        if wrong.true_count:
            at = pc.index(wrong, pa.scalar(True)).as_py()
            offence = self._meta.setdefault(column, _Offence())
            key = batch.column(RECORD_KEY)[at].as_py()
            offence.add(wrong.true_count, key, found[at].as_py())


def check_footer_keys(
    storage: Storage, source: RunSource, footer: ParquetFooter, stream: KeyStream
) -> Iterator[Finding]:
    """Check the key range in a footer against the actual keys.

    Readers skip files and row groups by these ranges: a range that is too narrow hides rows.
    """
    values = footer.key_values
    low, high = values.get(FOOTER_MIN_KEY), values.get(FOOTER_MAX_KEY)
    if low is not None and high is not None and stream.low is not None:
        # Hudi orders keys by UTF-16; keys that this orders differently are not compared.
        told = same_order_in_java(low + high + stream.low + (stream.high or ""))
        if told and (low, high) != (stream.low, stream.high):
            yield _range_finding(
                source,
                f"its footer has the keys {low!r} to {high!r}, its rows have {stream.low!r} to "
                f"{stream.high!r}",
            )
    text = values.get(FOOTER_ROW_GROUP_KEYS)
    if text is None or not source.ordered:
        return
    wanted = parse_row_group_keys(text, source.name)
    found = list(_read_first_keys(storage, source, footer))
    if wanted != found:
        at = next(
            (i for i, pair in enumerate(zip(wanted, found, strict=False)) if pair[0] != pair[1]), 0
        )
        yield _range_finding(
            source,
            f"its footer has the first keys of {len(wanted)} row groups, its rows have "
            f"{len(found)}, and they differ from row group {at} on",
        )


def _range_finding(source: RunSource, what: str) -> Finding:
    return Finding(
        Severity.ERROR,
        Code.KEY_RANGE,
        f"{source.name}: {what}; a lookup would miss rows",
        path=source.path,
        instant=source.instant,
        advice=ADVICE_REWRITE,
    )


def _read_first_keys(storage: Storage, source: RunSource, footer: ParquetFooter) -> Iterator[str]:
    with open_parquet(
        storage,
        source.path,
        source.name,
        offset=source.offset,
        length=source.length,
        footer=footer,
    ) as file:
        for group in range(file.num_row_groups):
            first = next(file.read([RECORD_KEY], batch_rows=1, row_groups=[group]), None)
            if first is not None and first.num_rows:
                yield first.column(0)[0].as_py()
