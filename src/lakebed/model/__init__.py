"""Values that every layer uses: clocks, instants, options, the Executor.

This layer owns plain frozen values and pure functions on them. It does not know storage, file
formats or Spark.
"""
