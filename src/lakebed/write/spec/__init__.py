"""The values that describe a write and its result: operation, columns, settings, status, summary."""
