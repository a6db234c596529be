"""The bytes of indexes: Bloom filters, and values as keys that sort like the values."""
