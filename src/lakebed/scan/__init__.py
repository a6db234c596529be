"""Determines the slices, row groups and rows to read for a predicate or for keys."""
