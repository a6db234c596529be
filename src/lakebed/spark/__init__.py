"""The engine on Spark, using only the DataFrame API.

Owns the session helper, the Executor over `mapInArrow`, and the way from a DataFrame to a commit
and from a snapshot to a DataFrame. Must not depend on the in-process engine.
"""
