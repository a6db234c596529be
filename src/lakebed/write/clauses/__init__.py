"""The clauses of a MERGE or an UPDATE: values, checks against a table, and their columns."""
