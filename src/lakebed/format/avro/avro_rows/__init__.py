"""Converts Avro records to Arrow columns and back, by a program compiled from the schema.

This package owns the content of Avro and CDC blocks. `shape` describes the bytes of a schema, and
`program` flattens the shape into instructions. `kernel` (compiled) or `twin` (plain Python)
executes these over the bytes of many records; `columns` converts the result to Arrow. `block` reads
a block as a stream, `encode` writes records. Nothing here does I/O.
"""
