"""Merge sorted runs of Arrow batches into one, key by key.

This layer owns the order of equal keys and the choice of the version of a row that survives. It
does not know where runs are stored, what an instant is, or how a table is laid out.
"""
