"""Sorted runs of Arrow batches merged into one, key by key.

Owns the order of equal keys and the choice of the version of a row that survives. Must not know
where a run is stored, what an instant is, or how a table is laid out.
"""
