"""The stages of a write, on any engine: rows to keys, keys to sorted runs, runs to base files.

Owns the stages of the pipeline and the plan between them. Must not know Spark: an engine passes in
Arrow batches and an Executor.
"""
