"""The bytes of secondary indexes: values as keys that sort like the values."""
