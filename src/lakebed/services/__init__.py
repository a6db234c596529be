"""Table services: each decides in `plan.py`, on values alone, and acts in `execute.py`.

They meet Spark through the Executor only.
"""
