"""Changes of a table's columns: each a commit that records the new columns."""
