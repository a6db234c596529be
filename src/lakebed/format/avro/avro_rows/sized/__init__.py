"""Strings, bytes and decimals: from their positions in the data to the buffers of a column.

Owns the loops over single bytes, compiled and plain. Must not know schemas or programs.
"""
