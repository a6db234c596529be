"""Move a table to another table version or layout.

Owns the choice of files to rewrite. Must not know how file groups are compacted.
"""
