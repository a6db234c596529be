"""Hudi's file formats and names: each module parses and encodes one of them.

Owns file names, properties, commit metadata, record keys, partition paths, bucket hashes and log
blocks. Must not do I/O and must not know storage, tables or Spark.
"""
