"""Merges and updates in this process: rows are matched and clauses evaluated on Arrow arrays.

The source is held in memory, the target is streamed.
"""
