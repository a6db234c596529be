"""Lakebed: LSM tables of sorted Parquet runs for PySpark, on Apache Hudi's table format.

What is behind a name is loaded when the name is first used: importing the package takes
milliseconds, and a script that only catches errors or asks for help never pays for the rest.
"""

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
    from lakebed.api.description import Description
    from lakebed.api.layers import FileGroupLayers, Layer, Layers
    from lakebed.api.opening import create_table, open_table
    from lakebed.api.progress import set_progress
    from lakebed.api.table import Table
    from lakebed.write.spec.commit_summary import Commit

    __version__: str

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

_MODULES = {
    "Commit": "lakebed.write.spec.commit_summary",
    "Description": "lakebed.api.description",
    "FileGroupLayers": "lakebed.api.layers",
    "Layer": "lakebed.api.layers",
    "Layers": "lakebed.api.layers",
    "Table": "lakebed.api.table",
    "create_table": "lakebed.api.opening",
    "open_table": "lakebed.api.opening",
    "set_progress": "lakebed.api.progress",
}


def __getattr__(name: str) -> Any:
    """Load what a name of the package stands for."""
    if name == "__version__":
        value: Any = _version()
    elif name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module 'lakebed' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - loads a parser

    try:
        return version("lakebed")
    except PackageNotFoundError:  # run from a checkout or a zip that was never installed
        return "0+unknown"


def local_session(
    cores: int | str = "*",
    app: str = "lakebed",
    conf: dict[str, str] | None = None,
    *,
    warm_up: bool = True,
) -> Any:
    """Start (or find) a Spark session on this machine, set up for Lakebed.

    `conf` adds to or overrides the defaults. `warm_up=False` returns before the Python workers
    are started: quicker for a session that only reads tables without logs.
    """
    from lakebed.spark.session import local_session as start  # noqa: PLC0415 - pyspark is heavy

    return start(cores, app, conf, warm_up=warm_up)
