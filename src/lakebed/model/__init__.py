"""Values that every layer uses: clocks, instants, options, the Executor.

Owns plain frozen values and pure functions on them. Must not know storage, bytes on disk, Arrow
files or Spark.
"""
