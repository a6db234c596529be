"""Queries: which tables, columns and rows they need, and their execution on Spark and in process."""
