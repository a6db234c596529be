"""Avro: schemas, the binary encoding, and records as columns."""
