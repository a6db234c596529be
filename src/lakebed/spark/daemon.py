"""The daemon that forks Spark's Python workers, warmed up before the first fork.

Every worker is a fork of this process, so modules that are loaded here are loaded once: numba and
the kernels, pyarrow, pandas, and the writing and reading code. `local_session` configures this
daemon; in a session without it, every worker spends seconds on loading. Spark starts one daemon for
each kind of worker; those that only plan a read or a write of a data source call no kernel. With the
argument `compile` the process exits once the kernels are compiled.
"""

import sys

import numpy as np
import pyarrow as pa
from pyspark.daemon import manager

from lakebed.format.avro.avro_rows import machine
from lakebed.format.files.page_walk import load_walk
from lakebed.format.names.bucket_hash import warm_up
from lakebed.merge import tree
from lakebed.scan import scan
from lakebed.write import file_groups, staging

WARMED = (np, pa, file_groups, scan, staging)
_PLANNING = ("create_", "data_source_pushdown_", "lookup_", "plan_", "write_into_")


def _only_plans(arguments: list[str]) -> bool:
    """Return whether the workers of this daemon only plan, judging by the name of their module."""
    package, _, name = (arguments or [""])[0].rpartition(".")
    return package == "pyspark.sql.worker" and name.startswith(_PLANNING)


if __name__ == "__main__":
    if not _only_plans(sys.argv[1:]):
        warm_up()
        tree.warm_up()
        machine.warm_up()
        load_walk()
        pa.array([0])  # the first such call imports pandas
    if sys.argv[1:] != ["compile"]:
        manager()
