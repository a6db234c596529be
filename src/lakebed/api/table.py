"""A table, opened: what users call."""

import logging
import os
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from lakebed.api.create import default_name, table_properties
from lakebed.api.engines import Engines
from lakebed.api.layers import Layers, layers_of
from lakebed.errors import (
    ExistsError,
    InvalidError,
    OptionError,
    SchemaError,
    UnsupportedError,
)
from lakebed.format.meta_columns import META_COLUMNS
from lakebed.index.bucket import checked_index
from lakebed.model.clock import Clock, SystemClock
from lakebed.model.instant import resolve_as_of
from lakebed.model.options import check_options
from lakebed.storage.open import open_storage
from lakebed.storage.storage import Storage
from lakebed.table.config import BucketIndex, TableConfig
from lakebed.table.history import files_table, history_table
from lakebed.table.properties_file import PROPERTIES_PATH, create_properties, load_config
from lakebed.table.schema import normalise
from lakebed.table.snapshot import CommitCache, Snapshot, load_snapshot
from lakebed.timeline.active import ActiveTimeline
from lakebed.write.pipeline import Commit, WriteTarget, execute_write

log = logging.getLogger(__name__)

Moment = str | date | datetime


class Table:
    """One table. Every call looks at storage anew, so it sees what others committed."""

    def __init__(
        self, storage: Storage, config: TableConfig, engines: Engines, clock: Clock
    ) -> None:
        self._storage = storage
        self._config = config
        self._engines = engines
        self._clock = clock
        self._commits = CommitCache(ActiveTimeline(storage, config.timeline_path))

    def __repr__(self) -> str:
        return f"Table({self._config.name!r}, {self._config.table_type}, {self._storage.url})"

    @property
    def name(self) -> str:
        """Give the table's name."""
        return self._config.name

    @property
    def path(self) -> str:
        """Give where the table lies."""
        return self._storage.url

    @property
    def config(self) -> TableConfig:
        """Give what the table's properties say."""
        return self._config

    @property
    def schema(self) -> pa.Schema:
        """Give the columns as of the last commit, without the meta columns."""
        return self._snapshot(None).schema

    def bulk_insert(
        self, rows: object, *, index: str | None = None, buckets: int | None = None
    ) -> Commit:
        """Load `rows`, a DataFrame or any Arrow stream, as base files sorted by record key.

        A key that comes several times, or is in the file group already, is resolved by the
        table's merge mode. `index` and `buckets` are only needed at the first write to a table
        that another engine made and that does not say how its writer finds a key.
        """
        return self._write("BULK_INSERT", rows, index, buckets)

    def insert(
        self, rows: object, *, index: str | None = None, buckets: int | None = None
    ) -> Commit:
        """Add `rows`; no key is looked up outside the file group that it belongs to."""
        return self._write("INSERT", rows, index, buckets)

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        as_of: Moment | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        mode: str = "snapshot",
    ) -> Any:
        """Give the rows: a DataFrame, or without a session a pyarrow RecordBatchReader.

        `columns` may name meta columns (`_hoodie_commit_time`, ...); None means all columns of
        the table. `where` is a SQL predicate. `as_of` is an instant, a date or timestamp text
        (to the end of its second) or a datetime, in the table's time zone (UTC for tables that
        we make) unless it carries its own: the commits that had begun by then.
        """
        if mode != "snapshot":
            raise UnsupportedError(f'mode={mode!r}: this release reads mode="snapshot" only')
        if since is not None or until is not None:
            raise UnsupportedError("since, until: incremental reads are not in this release")
        if where is not None and (type(where) is not str or not where.strip()):
            raise InvalidError(f"where: want a predicate as text, found {where!r}")
        snapshot = self._snapshot(as_of)
        names = _checked_columns(columns, snapshot.schema)
        return self._engines.main.read(snapshot, names, where)

    def history(self) -> pa.Table:
        """Give every instant of the timeline, newest first, with what it wrote."""
        return history_table(self._snapshot(None))

    def files(self, as_of: Moment | None = None) -> pa.Table:
        """Give every data file that a read at this moment uses."""
        return files_table(self._snapshot(as_of))

    def layers(self, as_of: Moment | None = None) -> Layers:
        """Give the layers of each file group; `print` the result to see them drawn."""
        return layers_of(self._snapshot(as_of).slices)

    def _snapshot(self, as_of: Moment | None) -> Snapshot:
        self._config = load_config(self._storage)
        instant = None if as_of is None else resolve_as_of(as_of, self._config.zone)
        return load_snapshot(self._storage, self._config, instant, self._commits)

    def _write(
        self, operation: str, rows: object, index: str | None, buckets: int | None
    ) -> Commit:
        self._config.check_writable()
        schema, stage = self._engines.for_data(rows).source(rows)
        target = WriteTarget(
            self._storage, self._config, self._clock, self._commits, self._engines.main.executor
        )
        named = self._named_index(index, buckets)
        commit, self._config = execute_write(target, operation, schema, stage, named)
        return commit

    def _named_index(self, index: str | None, buckets: int | None) -> BucketIndex | None:
        if index is None and buckets is None:
            return None
        if index is not None and str(index).lower() != "bucket":
            raise UnsupportedError(f'index={index!r}: this release writes with index="bucket" only')
        if buckets is None:
            raise InvalidError('index="bucket" needs buckets=<number>')
        return checked_index(self._config, buckets, ())


def create_table(
    spark: Any | None,
    path: str,
    schema: object,
    key: str | Sequence[str],
    ordering: str | Sequence[str] | None = None,
    partition_by: str | Sequence[str] = (),
    name: str | None = None,
    table_type: str = "MERGE_ON_READ",
    index: str = "bucket",
    buckets: int = 4,
    layout: str = "lsm_tree",
    table_version: int = 9,
    column_groups: Mapping[str, object] | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> Table:
    """Make an empty table at `path` and open it.

    `schema` is a pyarrow Schema, or with a session also a Spark StructType or a DDL text. A
    record key is unique within its partition. `properties` takes Hudi's own option names; an
    unknown one is refused with the nearest name. `storage_options` go to the object store
    (endpoint, region, keys); `spark` may be None.

    >>> import pyarrow as pa, lakebed
    >>> schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
    >>> t = lakebed.create_table(None, "memory://doc/create", schema, key="id")
    >>> commit = t.insert(pa.table({"id": [2, 1], "city": ["Kyiv", "Oslo"]}))
    >>> t.read().read_all().to_pydict()
    {'id': [1, 2], 'city': ['Oslo', 'Kyiv']}
    """
    engines = Engines(spark)
    if not isinstance(properties or {}, Mapping):
        raise OptionError(f"properties: want a mapping, found {type(properties).__name__}")
    if name is not None and not isinstance(name, str):
        raise InvalidError(f"name: want text, found {name!r}")
    options = dict(properties or {})
    for line in check_options(options):
        log.info(line)
    storage = open_storage(_checked_path(path), storage_options)
    settled = table_properties(
        schema=normalise(engines.main.schema(schema)),
        key=_names(key, "key"),
        ordering=_names(ordering, "ordering"),
        partition_by=_names(partition_by, "partition_by"),
        name=name or options.get("hoodie.table.name") or default_name(storage.url),
        table_type=table_type,
        index=index,
        buckets=buckets,
        layout=layout,
        table_version=table_version,
        column_groups=column_groups or {},
        properties=options,
    )
    return make_table(storage, settled, engines, clock or SystemClock())


def make_table(
    storage: Storage, properties: Mapping[str, str], engines: Engines, clock: Clock
) -> Table:
    """Make an empty table of settled properties on an open storage."""
    _check_empty(storage)
    return Table(storage, create_properties(storage, properties), engines, clock)


def open_table(
    spark: Any | None,
    path: str,
    storage_options: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> Table:
    """Open the table at `path`, made by Lakebed or by Apache Hudi."""
    engines = Engines(spark)
    storage = open_storage(_checked_path(path), storage_options)
    return Table(storage, load_config(storage), engines, clock or SystemClock())


def _checked_path(path: object) -> str:
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    if not isinstance(path, str):
        raise InvalidError(f"path: want a path or a URL as text, found {path!r}")
    return path


def _names(given: str | Sequence[str] | None, what: str) -> tuple[str, ...]:
    if given is None:
        return ()
    if not isinstance(given, Sequence):
        raise InvalidError(f"{what}: want a column name or a list of them, found {given!r}")
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if type(name) is not str or not name:
            raise InvalidError(f"{what}: want column names, found {name!r}")
    return names


def _checked_columns(columns: Sequence[str] | None, schema: pa.Schema) -> list[str]:
    if columns is None:
        return list(schema.names)
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise InvalidError(f"columns: want a list of names, found {columns!r}")
    for name in columns:
        if name not in schema.names and name not in META_COLUMNS:
            raise SchemaError(f"no column {name!r}; the table has {', '.join(schema.names)}")
    if len(set(columns)) != len(columns):
        raise InvalidError(f"columns: a name comes twice in {', '.join(columns)}")
    return list(columns)


def _check_empty(storage: Storage) -> None:
    """Refuse a folder that holds a table, or anything that a reader could take for data."""
    folders, entries = storage.list_names("")
    held = {entry.path for entry in storage.list(".hoodie")} if ".hoodie" in folders else set()
    # A creation that failed half-way leaves empty folders, which are no reason to refuse.
    folders = [folder for folder in folders if folder != ".hoodie" or held]
    found = [*folders, *(entry.path for entry in entries)]
    if not found:
        return
    if PROPERTIES_PATH in held:
        raise ExistsError(f"{storage.url}: a table exists here already; open it with open_table")
    raise InvalidError(f"{storage.url}: want an empty folder for a new table, found {found[0]!r}")
