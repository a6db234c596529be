"""One table as it is on storage: configuration, schema, file groups, slices, base files.

Owns what a snapshot holds and how one file of it is read or written. Must not know
any index, transaction or engine.
"""
