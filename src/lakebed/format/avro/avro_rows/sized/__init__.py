"""Copy strings, bytes and decimals from their positions in the data to the buffers of a column.

This package owns the loops over single bytes, compiled and plain. It does not know schemas or
programs.
"""
