"""Avro records to Arrow columns and back, by a program compiled from the schema.

Owns the content of Avro and CDC blocks. `shape` describes the bytes of a schema and `program`
flattens that into instructions, which `kernel` (compiled) or `twin` (plain Python) executes over
the bytes of many records; `columns` converts the result to Arrow. `block` reads a block as a
stream, `encode` writes records. Must not do I/O.
"""
