"""Translates errors of Spark's workers into Lakebed's errors."""

import os
import pickle
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from lakebed.errors import ChecksumError, InvalidError, LakebedError, UnavailableError

# Patterns of Spark's messages, and what to do about each; the first match is used. The group of the
# pattern replaces the `{}` in the sentence.
_CAUSES = {
    r"No module named 'lakebed\b": (
        "Spark's Python workers cannot import lakebed: install the package in the environment "
        "that PYSPARK_PYTHON names on every executor (for a trial, ship a zip with "
        "spark.addArtifacts(..., pyfile=True))"
    ),
    r"PYTHON_VERSION_MISMATCH": (
        "Spark's Python workers run another version of Python than this driver: set PYSPARK_PYTHON to an "
        "interpreter of the same version, with lakebed installed, before the session starts"
    ),
    r"No module named '([\w.]+)'|PACKAGE_NOT_INSTALLED\]\s*(\w+)": (
        "Spark's Python workers lack the package {}: set PYSPARK_PYTHON to the environment that "
        "has lakebed installed before the session starts"
    ),
    r"Cannot run program": (
        "Spark cannot start its Python workers: set PYSPARK_PYTHON to a Python interpreter that "
        "exists on every executor before the session starts"
    ),
    r"Python worker exited unexpectedly|Python worker failed to connect back": (
        "Spark's Python workers die: PYSPARK_PYTHON names another environment than the driver's, "
        "or the machine is out of memory"
    ),
}
# The message of Spark's Parquet reader for a page with a wrong checksum.
_PAGE_CHECKSUM = "CRC checksum verification failed"
_READ_FILE = re.compile(r"reading file (\S+?)\.?\s", re.MULTILINE)
_UNAVAILABLE = re.compile(r"^lakebed\.errors\.UnavailableError: (.*)$", re.MULTILINE)


@contextmanager
def translated() -> Iterator[None]:
    """Translate known Spark failures into Lakebed errors.

    These are unavailable storage, a damaged page, and Python workers not set up for Lakebed.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        outage = _UNAVAILABLE.search(text)
        if outage is not None:
            raise UnavailableError(outage[1]) from error
        if _PAGE_CHECKSUM in text:
            read = _READ_FILE.search(text)
            raise ChecksumError(
                f"{read[1] if read else 'a base file'}: a page does not match its checksum: bytes of "
                "the file have changed since it was written. verify() names every damaged file and "
                "says what can be done"
            ) from error
        for pattern, sentence in _CAUSES.items():
            found = re.search(pattern, text)
            if found is not None:
                named = next((group for group in found.groups() if group), "")
                raise InvalidError(sentence.format(named)) from error
        raise


@contextmanager
def plainly() -> Iterator[None]:
    """Make Spark show a Lakebed error by its message, without the stack of its Python worker.

    This is for the code of a data source, which Spark runs in a worker. The worker reads from its
    environment how to format an error, and then exits: no other error is affected.
    """
    try:
        yield
    except LakebedError:
        if _in_worker():
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def _in_worker() -> bool:
    # PySpark 4.1 does not say so in the environment, but forks its workers from this module.
    main = getattr(sys.modules["__main__"], "__spec__", None)
    daemon = main is not None and main.name in ("pyspark.daemon", "lakebed.spark.daemon")
    return daemon or os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER"


def pack_error(error: LakebedError) -> bytes:
    """Pickle a Lakebed error in a worker, so that it arrives unchanged and is not retried."""
    return pickle.dumps(error)


def unpack_error(data: bytes) -> LakebedError:
    """Return the error that `pack_error` packed."""
    error = pickle.loads(data)  # noqa: S301 - written by our own task
    assert isinstance(error, LakebedError)
    return error
