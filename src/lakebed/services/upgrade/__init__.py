"""Move a table to another table version or layout.

Owns what must be rewritten for that. Must not know how file groups are compacted.
"""
