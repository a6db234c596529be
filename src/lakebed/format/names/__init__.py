"""Names and keys: data files, instants, record keys, partition paths, bucket hashes."""
