"""Work that the first write of a new session would wait for, done when the session starts.

Kernels that were never compiled on this machine are compiled while the JVM starts. Then one small
task per core makes Spark start the daemon of its Python workers, which loads Lakebed's code, and
fork the workers. None of this changes how a session behaves: if it fails, the first write does the
work.
"""

import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress

import pyarrow as pa
from pyspark.sql import SparkSession

from lakebed.format.avro.avro_rows import kernel as avro_kernel
from lakebed.format.compiled import has_cache
from lakebed.format.files import page_walk
from lakebed.format.names import kernel as hash_kernel
from lakebed.merge import kernel as merge_kernel
from lakebed.spark.parallelism import parallelism

_KERNELS = (hash_kernel, avro_kernel, page_walk, merge_kernel)


def compile_kernels() -> subprocess.Popen[bytes] | None:
    """Start a process that compiles the kernels; return None if they are compiled already."""
    if all(has_cache(str(kernel.__file__)) for kernel in _KERNELS):
        return None
    return subprocess.Popen(
        [sys.executable, "-m", "lakebed.spark.daemon", "compile"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def warm_workers(spark: SparkSession, compiling: subprocess.Popen[bytes] | None) -> None:
    """Make Spark start its Python workers, after `compiling` has exited."""
    if compiling is not None:
        compiling.wait()
    # Problems with the workers are reported, with advice, when they are needed.
    with suppress(Exception):
        cores = parallelism(spark)
        spark.range(0, cores, 1, cores).mapInArrow(_pass_on, "id bigint").collect()


def _pass_on(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    return batches
