"""Lakebed: LSM tables of sorted Parquet runs for PySpark, on Apache Hudi's table format."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from lakebed.api.description import Description
from lakebed.api.layers import FileGroupLayers, Layer, Layers
from lakebed.api.opening import create_table, open_table
from lakebed.api.progress import set_progress
from lakebed.api.table import Table
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
from lakebed.write.commit_summary import Commit

try:
    __version__ = version("lakebed")
except PackageNotFoundError:  # run from a checkout or a zip that was never installed
    __version__ = "0+unknown"

__all__ = [
    "Commit",
    "ConflictError",
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
    "NotFoundError",
    "OptionError",
    "SchemaError",
    "Table",
    "UnavailableError",
    "UnsupportedError",
    "__version__",
    "create_table",
    "local_session",
    "open_table",
    "set_progress",
]


def local_session(
    cores: int | str = "*", app: str = "lakebed", conf: dict[str, str] | None = None
) -> Any:
    """Start (or find) a Spark session on this machine, set up for Lakebed."""
    from lakebed.spark.session import local_session as start  # noqa: PLC0415 - pyspark is heavy

    return start(cores, app, conf)
