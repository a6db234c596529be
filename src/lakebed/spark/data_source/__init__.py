"""`format("lakebed")`: the interface of Spark's Python data source to a table.

Owns the readers and the writer that Spark pickles between its driver and its tasks, and the
conversion of Spark's filters to a predicate. The code that opens and creates tables is above this
layer, so it is passed to the writer (`pyspark_lakebed` connects the two).
"""
