"""Lakebed: LSM tables of sorted Parquet runs for PySpark, on Apache Hudi's table format.

Names are imported on first use, so importing the package takes milliseconds: a script that only
catches errors or prints help does not load pyarrow or Spark.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakebed.errors import (
    ConflictError,
    CorruptError,
    DamageWarning,
    ExistsError,
    InvalidError,
    KeyValueError,
    LakebedError,
    LockedError,
    NotFoundError,
    OptionError,
    SchemaError,
    UnavailableError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from lakebed.api.convert.convert import Conversion, convert
    from lakebed.api.description import Description
    from lakebed.api.layers import FileGroupLayers, Layer, Layers
    from lakebed.api.merge.builder import MergeBuilder
    from lakebed.api.opening import create_table, drop_table, open_table
    from lakebed.api.scanning.scan import TableScan
    from lakebed.api.streams.function import foreach_batch
    from lakebed.api.table import Table
    from lakebed.sql.front import catalog, sql
    from lakebed.terminal.progress import set_progress
    from lakebed.write.clauses.clause import lit
    from lakebed.write.spec.commit_summary import Commit

    __version__: str

__all__ = [
    "Commit",
    "ConflictError",
    "Conversion",
    "CorruptError",
    "DamageWarning",
    "Description",
    "ExistsError",
    "FileGroupLayers",
    "InvalidError",
    "KeyValueError",
    "LakebedError",
    "Layer",
    "Layers",
    "LockedError",
    "MergeBuilder",
    "NotFoundError",
    "OptionError",
    "SchemaError",
    "Table",
    "TableScan",
    "UnavailableError",
    "UnsupportedError",
    "__version__",
    "catalog",
    "convert",
    "create_table",
    "drop_table",
    "foreach_batch",
    "lit",
    "local_session",
    "open_table",
    "set_progress",
    "sql",
]

_MODULES = {
    "Commit": "lakebed.write.spec.commit_summary",
    "Conversion": "lakebed.api.convert.convert",
    "Description": "lakebed.api.description",
    "FileGroupLayers": "lakebed.api.layers",
    "Layer": "lakebed.api.layers",
    "Layers": "lakebed.api.layers",
    "MergeBuilder": "lakebed.api.merge.builder",
    "Table": "lakebed.api.table",
    "TableScan": "lakebed.api.scanning.scan",
    "catalog": "lakebed.sql.front",
    "convert": "lakebed.api.convert.convert",
    "create_table": "lakebed.api.opening",
    "drop_table": "lakebed.api.opening",
    "foreach_batch": "lakebed.api.streams.function",
    "lit": "lakebed.write.clauses.clause",
    "open_table": "lakebed.api.opening",
    "set_progress": "lakebed.terminal.progress",
    "sql": "lakebed.sql.front",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name == "__version__":
        value: Any = _version()
    elif name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
    else:
        raise AttributeError(
            f"module 'lakebed' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - loads a parser

    try:
        return version("lakebed")
    except PackageNotFoundError:  # running from a checkout or a zip that is not installed
        return "0+unknown"


def local_session(
    cores: int | str = "*",
    app: str = "lakebed",
    conf: dict[str, str] | None = None,
    *,
    warm_up: bool = True,
) -> Any:
    """Start a Spark session on this machine, configured for Lakebed, or return the active one.

    Args:
        cores: The number of local cores; `"*"` means all.
        app: The name of the application.
        conf: Spark settings that add to or override the defaults.
        warm_up: Start the Python workers before returning. With False, the call returns earlier,
            and the first task that needs a worker waits for it.
    """
    try:
        from lakebed.spark.session import local_session as start  # noqa: PLC0415 - pyspark is heavy
    except ModuleNotFoundError as error:
        from lakebed.model.extras import missing_extra  # noqa: PLC0415 - only here

        raise missing_extra("lakebed.local_session", "PySpark", "spark") from error

    return start(cores, app, conf, warm_up=warm_up)
