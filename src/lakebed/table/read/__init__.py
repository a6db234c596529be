"""Reads rows from files: sources, runs, filters, merged slices."""
