"""The engine on Spark, with only the DataFrame API.

Owns the session helper, the Executor over `mapInArrow`, and the way from a DataFrame to a commit
and from a snapshot to a DataFrame. Must not know the in-process engine.
"""
