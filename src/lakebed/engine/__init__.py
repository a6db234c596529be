"""The engine in this process, on Arrow alone.

This layer owns the in-process executor, writes Arrow streams as commits, and reads snapshots as
streams. It does not know Spark.
"""
