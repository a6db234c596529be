"""Streams into a table: each batch is committed once, whatever fails and is tried again.

Owns the writer of `writeStream.format("lakebed")` and the function for `foreachBatch`. What a commit
records of a batch is below, in `commit/stream_batches.py`.
"""
