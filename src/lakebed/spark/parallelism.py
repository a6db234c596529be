"""How many tasks a session runs at once."""

import os
import re
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

_known: WeakKeyDictionary[SparkSession, int] = WeakKeyDictionary()


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks this session runs at once, as far as Spark reports it."""
    known = _known.get(spark)
    if known is None:
        # A query plan shows it even in a Spark Connect session, without running a job.
        [row] = spark.sql("EXPLAIN SELECT * FROM range(1)").collect()
        found = re.search(r"splits=(?:Some\()?(\d+)", row[0])
        known = _known[spark] = int(found[1]) if found else os.cpu_count() or 1
    return known
