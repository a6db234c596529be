"""Avro records to Arrow columns and back, by a program made from the schema.

Owns the content of Avro and CDC blocks. `shape` says what the bytes of a schema look like,
`program` flattens that into instructions, which `kernel` (compiled) or `twin` (plain) carries
out over the bytes of many records; `columns` makes Arrow of what they leave behind. `block`
reads a block as a stream, `encode` writes records. Must not do I/O.
"""
