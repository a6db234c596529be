"""Create a table or open an existing one."""

import logging
import os
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar, cast

from lakebed.api.create import default_name, table_properties
from lakebed.api.create_checks import AUTO, check_used, checked_expected_rows
from lakebed.api.engines import Engines
from lakebed.api.option_conflicts import check_settings
from lakebed.api.table import Table
from lakebed.commit.drop import LOCK_FILES, finish_drop
from lakebed.commit.drop import drop_table as drop
from lakebed.errors import ExistsError, InvalidError, NotFoundError, OptionError
from lakebed.merge.rule import Merger
from lakebed.model.clock import Clock, SystemClock
from lakebed.model.options.hudi import METADATA_TABLE
from lakebed.model.options.option import Scope
from lakebed.model.options.registry import check_given
from lakebed.storage.open import open_storage
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import (
    PROPERTIES_PATH,
    create_properties,
    load_config,
)
from lakebed.table.config.schema import normalise
from lakebed.table.config.table_config import TableConfig
from lakebed.table.location import find_table

log = logging.getLogger(__name__)

Kind = TypeVar("Kind", bound=Table)


def create_table(
    spark: Any | None,
    path: str,
    schema: object,
    key: str | Sequence[str] | None,
    ordering: str | Sequence[str] | None = None,
    partition_by: str | Sequence[str] = (),
    name: str | None = None,
    table_type: str = "MERGE_ON_READ",
    index: str = "bucket",
    buckets: int | str | None = "auto",
    layout: str = "lsm_tree",
    table_version: int | None = None,
    column_groups: Mapping[str, object] | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    merger: Merger | None = None,
    expected_rows: int | None = None,
) -> Table:
    """Create an empty table at `path` and return a handle on it.

    Args:
        spark: A Spark session, or None to work in this process on Arrow data.
        path: An empty or missing folder, as a path or URL (`"s3://bucket/table"`).
        schema: A DDL string (`"id BIGINT, v STRING"`), a pyarrow Schema, or rows with these
            columns: a pyarrow Table, a pandas or Polars frame or, with a session, a DataFrame.
        key: The record key columns. A key is unique within its partition. With None, the table
            generates a key for each row that is inserted, and its index is `"simple"`.
        ordering: The columns that decide which of two rows with the same key wins: the one with
            the greater value, and on a tie the later write. Without them, the later write wins.
        partition_by: The partition columns.
        name: The table's name; by default the last part of `path`.
        table_type: `"MERGE_ON_READ"` appends upserts as logs, `"COPY_ON_WRITE"` rewrites base
            files.
        index: How writes find a key: `"bucket"`, `"consistent_hashing"`, `"simple"` or
            `"global_simple"`.
        buckets: The number of buckets per partition for an index that hashes keys. With `"auto"`,
            the first write chooses it permanently, from the size of its rows.
        layout: `"lsm_tree"` or `"default"`.
        table_version: Hudi's table version: 8, 9 or 10; by default 9, and 10 with column groups.
        column_groups: Columns to store in files of their own, by the name of their group:
            `{"risk": "score,band;scored_at"}`, or a list of columns. The column after the `;`
            orders the versions of a row in this group. See [Column groups](column-groups.md).
        properties: Hudi options to store with the table; see [Options](options.md).
        storage_options: Options for the object store, such as endpoint, region and
            credentials; see [Object stores](storage.md).
        merger: A function that merges rows: it takes two Arrow batches, the older and the newer
            version of the same keys, and returns the merged rows. It is not stored: pass it to
            `open_table` too.
        expected_rows: The number of rows to size `buckets="auto"` for, instead of the rows of
            the first write.

    Raises:
        ExistsError: There is already a table at `path`.
        InvalidError: An argument is wrong, or the folder is not empty.
        OptionError: A property is unknown (the message suggests the closest one), or contradicts
            an argument.

    Example:
        >>> import pyarrow as pa, lakebed
        >>> schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
        >>> t = lakebed.create_table(None, "memory://doc/create", schema, key="id")
        >>> commit = t.insert(pa.table({"id": [2, 1], "city": ["Kyiv", "Oslo"]}))
        >>> t.read().read_all().to_pydict()
        {'id': [1, 2], 'city': ['Oslo', 'Kyiv']}
    """
    engines = Engines(spark)
    if not isinstance(properties or {}, Mapping):
        raise OptionError(f"properties: expected a mapping, found {type(properties).__name__}")
    if name is not None and not isinstance(name, str):
        raise InvalidError(f"name: expected a string, found {name!r}")
    given = check_given(properties or {}, Scope.CREATE)
    for line in given.lines:
        log.info(line)
    options = given.stored
    buckets = AUTO if buckets is None else buckets
    index = "simple" if key is None and index == "bucket" else index
    check_used(str(index), buckets, options)
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
        properties=properties or {},
        custom_merger=merger is not None,
        makes_keys=key is None,
        expected_rows=checked_expected_rows(expected_rows, buckets),
    )
    check_settings(storage, TableConfig.parse(settled, "create_table"))
    return make_table(storage, settled, engines, SystemClock(), merger)


def make_table(
    storage: Storage,
    properties: Mapping[str, str],
    engines: Engines,
    clock: Clock,
    merger: Merger | None = None,
) -> Table:
    """Create an empty table from complete properties; complete an interrupted drop first."""
    if finish_drop(storage, clock, properties):
        config = load_config(storage)
    else:
        _check_empty(storage)
        config = create_properties(storage, properties)
    return Table(storage, config, engines, clock, merger)


def drop_table(path: str, storage_options: Mapping[str, str] | None = None) -> None:
    """Delete the table at `path` with all its files; this cannot be undone.

    An interrupted call leaves no table, and a further call deletes the files that are left.

    Args:
        path: A path or URL.
        storage_options: Options for the object store; see [Object stores](storage.md).

    Raises:
        NotFoundError: There is no table at `path`.
        LockedError: Another process is writing to the table.

    Example:
        >>> import lakebed
        >>> t = lakebed.create_table(None, "memory://doc/drop", "id BIGINT, v STRING", key="id")
        >>> lakebed.drop_table("memory://doc/drop")
        >>> t = lakebed.create_table(None, "memory://doc/drop", "name STRING", key="name")
    """
    drop(open_storage(_checked_path(path), storage_options), SystemClock())


def open_table(
    spark: Any | None = None,
    path: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    merger: Merger | None = None,
    properties: Mapping[str, str] | None = None,
) -> Table:
    """Open the table at `path`, created by Lakebed or by Apache Hudi.

    `open_table(path)` works in this process on Arrow data, `open_table(spark,
    path)` with a Spark session.

    Args:
        spark: A Spark session, or None; or the path, if that is the only positional argument.
        path: A path or URL.
        storage_options: Options for the object store; see [Object stores](storage.md).
        merger: The custom merge function of a table that was created with one.
        properties: Options for this handle only. Lakebed does not maintain record or secondary
            indexes in Hudi's metadata table, and writes to a table that has them fail unless
            `hoodie.metadata.enable=false` lets the write drop them.

    Raises:
        NotFoundError: There is no table at `path`.
        UnsupportedError: The table uses a version or feature that Lakebed does not read.

    Example:
        >>> import lakebed
        >>> t = lakebed.create_table(None, "memory://doc/open", "id BIGINT, v STRING", key="id")
        >>> lakebed.open_table("memory://doc/open").schema.names
        ['id', 'v']
    """
    if isinstance(spark, (str, os.PathLike)):
        if path is not None:
            raise InvalidError(
                f"open_table: the first of two arguments is a Spark session or None, found {spark!r}; "
                "call open_table(path) or open_table(spark, path)"
            )
        spark, path = None, spark
    if path is None:
        raise InvalidError("open_table: path is missing; call open_table(path)")
    return open_as(Table, spark, path, storage_options, properties, merger)


def open_as(
    kind: type[Kind],
    spark: Any | None,
    path: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    merger: Merger | None = None,
) -> Kind:
    """Open the table at `path` as an instance of `kind`."""
    engines = Engines(spark)
    gives_up_indexes = _gives_up_indexes(properties)
    place = find_table(_checked_path(path), storage_options)
    if place.folder:
        raise NotFoundError(
            f"{path}: a folder of the table at {place.root.url}; open that table, and use where=..."
        )
    return kind(
        place.root,
        place.config,
        engines,
        SystemClock(),
        merger,
        gives_up_indexes=gives_up_indexes,
    )


def _gives_up_indexes(properties: object) -> bool:
    if not isinstance(properties or {}, Mapping):
        raise OptionError(f"properties: expected a mapping, found {type(properties).__name__}")
    given = check_given(cast("Mapping[str, str]", properties or {}), Scope.OPEN)
    return not METADATA_TABLE.value(given.values)


def _checked_path(path: object) -> str:
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    if not isinstance(path, str):
        raise InvalidError(f"path: expected a path or a URL as a string, found {path!r}")
    return path


def _names(given: str | Sequence[str] | None, what: str) -> tuple[str, ...]:
    if given is None:
        return ()
    if not isinstance(given, Sequence):
        raise InvalidError(f"{what}: expected a column name or a list of them, found {given!r}")
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if type(name) is not str or not name:
            raise InvalidError(f"{what}: expected column names, found {name!r}")
    return names


def _check_empty(storage: Storage) -> None:
    """Raise an error if the folder contains a table or any other file."""
    folders, entries = storage.list_names("")
    found = [entry.path for entry in entries]
    # A failed creation and a dropped table leave empty folders, and the latter also its lock.
    for folder in folders:
        held = (entry.path for entry in storage.list(folder))
        found += islice((path for path in held if not path.startswith(LOCK_FILES)), 1)
    if not found:
        return
    if PROPERTIES_PATH.rpartition("/")[2] in storage.names(".hoodie"):
        raise ExistsError(f"{storage.url}: a table already exists here; open it with open_table")
    raise InvalidError(
        f"{storage.url}: expected an empty folder for a new table, found {found[0]!r}"
    )
