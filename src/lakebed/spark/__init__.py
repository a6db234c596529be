"""The engine on Spark, using only the DataFrame API.

Owns `local_session`, the Executor over `mapInArrow`, and the way from a DataFrame to a commit
and from a snapshot to a DataFrame. Must not depend on the in-process engine.
"""
