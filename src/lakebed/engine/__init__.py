"""The engine in this process, on Arrow alone.

Owns the in-process Executor and the way from an Arrow stream to a commit and from a snapshot to a
RecordBatchReader. Must not know Spark.
"""
