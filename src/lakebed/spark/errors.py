"""Turn what comes back from Spark's workers into our own errors."""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from lakebed.errors import InvalidError, LakebedError

_LACKING = (
    "Spark's Python workers lack a package that lakebed needs: set PYSPARK_PYTHON to the "
    "environment that has lakebed installed before the session starts"
)
# What Spark says, and what to do about it; the first that fits counts.
_CAUSES = {
    "No module named 'lakebed'": (
        "Spark's Python workers cannot import lakebed: install the package in the environment "
        "that PYSPARK_PYTHON names on every executor (for a trial, ship a zip with "
        "spark.addArtifacts(..., pyfile=True))"
    ),
    "PYTHON_VERSION_MISMATCH": (
        "Spark's Python workers run another Python than this driver: set PYSPARK_PYTHON to an "
        "interpreter of the same version, with lakebed installed, before the session starts"
    ),
    "No module named": _LACKING,
    "PACKAGE_NOT_INSTALLED": _LACKING,
    "Cannot run program": (
        "Spark cannot start its Python workers: set PYSPARK_PYTHON to a Python interpreter that "
        "exists on every executor before the session starts"
    ),
    "Python worker exited unexpectedly": (
        "Spark's Python workers die at the start: PYSPARK_PYTHON probably names another "
        "environment than the driver's, or the machine is out of memory"
    ),
}


@contextmanager
def translated() -> Iterator[None]:
    """Give a sentence for the failures of a session that is not set up for Lakebed."""
    try:
        yield
    except PySparkException as error:
        text = str(error)
        for mark, sentence in _CAUSES.items():
            if mark in text:
                raise InvalidError(sentence) from error
        raise


def pack_error(error: LakebedError) -> bytes:
    """Pickle an error of ours in a worker, so that it arrives as itself and is not retried."""
    return pickle.dumps(error)


def unpack_error(data: bytes) -> LakebedError:
    """Give back what `pack_error` packed."""
    error = pickle.loads(data)  # noqa: S301 - written by our own task
    assert isinstance(error, LakebedError)
    return error
