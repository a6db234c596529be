"""Hudi's bytes and names: parse and encode, inverse to each other.

Owns file names, properties, commit metadata, key and partition spelling, bucket
hashes and log blocks. Must not do I/O and must not know storage, tables or Spark.
"""
