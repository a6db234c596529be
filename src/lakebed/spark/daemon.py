"""The daemon that forks Spark's Python workers, warmed up before the first fork.

Every worker is a fork of this process, so modules that are loaded here are loaded once: numba and
the kernels, pyarrow, pandas, and the writing and reading code. `local_session` configures this
daemon; in a session without it, every worker spends seconds on loading. With the argument `compile`
the process exits once the kernels are compiled.
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

if __name__ == "__main__":
    warm_up()
    tree.warm_up()
    machine.warm_up()
    load_walk()
    pa.array([0])  # the first such call imports pandas
    if sys.argv[1:] != ["compile"]:
        manager()
