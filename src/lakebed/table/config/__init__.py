"""The configuration of a table: properties, schema, keys, index, merge mode."""
