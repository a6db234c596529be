"""One table on storage: configuration, schema, file groups, slices, base files.

Owns the content of a snapshot and how one file of it is read or written. Must not know any index,
transaction or engine.
"""
