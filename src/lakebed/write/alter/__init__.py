"""Changes to a table's columns, each a commit that records the new schema."""
