"""Statements that write rows: INSERT, UPDATE, DELETE and MERGE."""
