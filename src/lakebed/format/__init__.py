"""Hudi's file formats and names; each module parses and encodes one of them.

This layer owns file names, properties, commit metadata, record keys, partition paths, bucket hashes
and log blocks. It does no I/O, and does not know storage, tables or Spark.
"""
