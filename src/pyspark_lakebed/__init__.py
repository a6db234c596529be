"""How Spark finds `format("lakebed")`: it imports every module named pyspark_* and asks it."""

from pyspark_lakebed.source import DefaultSource

__all__ = ["DefaultSource"]
