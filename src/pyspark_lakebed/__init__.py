"""How Spark finds `format("lakebed")`: it imports every module named pyspark_* and looks for sources."""

from pyspark_lakebed.source import DefaultSource

__all__ = ["DefaultSource"]
