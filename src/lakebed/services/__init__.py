"""Table services: each is planned in `plan.py`, on values alone, and carried out in `execute.py`.

They reach Spark only through the Executor.
"""
