"""From a predicate or keys to the slices, row groups and rows to read."""
