"""`format("lakebed")`: what Spark's Python data source asks of a table.

Owns the readers and the writer that Spark pickles between its driver and its tasks, and the way
from Spark's filters to a predicate. What opens and makes tables is above this layer, so a writer
gets it handed in (`pyspark_lakebed` puts both together).
"""
