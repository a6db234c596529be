"""One table on storage: configuration, schema, file groups, slices, base files.

Owns the content of a snapshot, and how each of its files is read or written. Must not depend on
indexes, transactions or engines.
"""
