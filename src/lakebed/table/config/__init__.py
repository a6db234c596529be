"""What a table says of itself: properties, schema, keys, index, merge mode."""
