"""What a write is and what it did, as values: operation, columns, settings, status, summary."""
