"""Column groups: which group owns a column, and how the rows of several groups are joined.

This package works on values and streams; it does not know storage or tables.
"""
