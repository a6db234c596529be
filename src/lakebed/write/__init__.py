"""What a write does, whoever runs it: rows to keys, keys to sorted runs, runs to base files.

Owns the stages of the pipeline and the plan between them. Must not know Spark: an
engine hands it Arrow batches and an Executor.
"""
