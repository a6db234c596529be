"""Column groups: which group owns a column, and rows of several groups stitched together.

Values and streams only; no storage, no table.
"""
