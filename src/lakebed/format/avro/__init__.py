"""Avro: schemas, binary forms, rows as columns."""
