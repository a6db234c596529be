"""Make a table, or open one that is there."""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from lakebed.api.create import default_name, table_properties
from lakebed.api.create_checks import AUTO, check_used, checked_expected_rows
from lakebed.api.engines import Engines
from lakebed.api.settings import check_settings
from lakebed.api.table import Table
from lakebed.errors import ExistsError, InvalidError, NotFoundError, OptionError
from lakebed.merge.rule import Merger
from lakebed.model.clock import Clock, SystemClock
from lakebed.model.options import check_options
from lakebed.storage.open import open_storage
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import PROPERTIES_PATH, create_properties
from lakebed.table.config.schema import normalise
from lakebed.table.config.table_config import TableConfig
from lakebed.table.location import find_table

log = logging.getLogger(__name__)

_METADATA = "hoodie.metadata.enable"

Kind = TypeVar("Kind", bound=Table)


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
    buckets: int | str | None = "auto",
    layout: str = "lsm_tree",
    table_version: int = 9,
    column_groups: Mapping[str, object] | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    merger: Merger | None = None,
    expected_rows: int | None = None,
) -> Table:
    """Make an empty table at `path` and open it.

    `schema` is a DDL string (`"id BIGINT, v STRING"`), a pyarrow Schema, or rows that have the
    columns: a pyarrow Table, a pandas or Polars frame, with a session also a DataFrame (or a
    StructType). A record key is unique within its partition. `buckets` are those of each partition
    for an index that hashes keys: a number, or "auto", which the first write settles for good from
    the size and the number of partitions of its rows (of `expected_rows`, where that is given). `properties` takes Hudi's own option names; an
    unknown one is refused with the nearest name. `storage_options` go to the object store
    (endpoint, region, keys); `spark` may be None. `merger` is a function of two Arrow batches, the
    older and the newer version of the same keys, that gives the merged rows; it is not stored,
    so whoever opens the table brings it along.

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
    buckets = AUTO if buckets is None else buckets
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
        properties=options,
        custom_merger=merger is not None,
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
    """Make an empty table of settled properties on an open storage."""
    _check_empty(storage)
    return Table(storage, create_properties(storage, properties), engines, clock, merger)


def open_table(
    spark: Any | None = None,
    path: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    merger: Merger | None = None,
    properties: Mapping[str, str] | None = None,
) -> Table:
    """Open the table at `path`, made by Lakebed or by Apache Hudi.

    `open_table(path)` works in this process, on Arrow; `open_table(spark, path)` on a Spark
    session. A table whose merge mode is CUSTOM needs its `merger` wherever rows are merged.
    `properties` count for this handle only: with `hoodie.metadata.enable=false` its first change
    also drops a record or secondary index that Hudi keeps, on account of which it would be refused.
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
    """Open the table at `path` as a handle of `kind`."""
    engines = Engines(spark)
    gives_up_indexes = _gives_up_indexes(properties)
    place = find_table(_checked_path(path), storage_options)
    if place.folder:
        raise NotFoundError(
            f"{path}: a folder of the table at {place.root.url}; open that, and read with where=..."
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
        raise OptionError(f"properties: want a mapping, found {type(properties).__name__}")
    given = dict(cast("Mapping[str, str]", properties or {}))
    check_options(given)
    for name in given:
        if name != _METADATA:
            raise OptionError(
                f"option {name}: open_table takes {_METADATA} only; a table keeps its own "
                "settings, see set_properties"
            )
    return given.get(_METADATA, "true").lower() == "false"


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


def _check_empty(storage: Storage) -> None:
    """Reject a folder that holds a table, or anything that a reader could take for data."""
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
