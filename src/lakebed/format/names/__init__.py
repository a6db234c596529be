"""Names and keys: data files, instants, record keys, partition paths and bucket hashes."""
