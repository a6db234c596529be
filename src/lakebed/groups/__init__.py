"""Column groups: which group owns a column, and how the rows of several groups are joined.

Values and streams only; no storage, no table.
"""
