"""Texts, bytes and decimals: from where they lie in the data to the buffers of a column.

Owns the loops over single bytes, compiled and plain. Must not know schemas or programs.
"""
