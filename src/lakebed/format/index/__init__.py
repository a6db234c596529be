"""The bytes of secondary indexes: values as keys that sort as the values do."""
