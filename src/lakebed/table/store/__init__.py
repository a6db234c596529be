"""Writes rows to files: base files, logs, change data."""
