"""Table services: each is planned in `plan.py`, without storage, and carried out in `execute.py`.

Services reach Spark only through the Executor.
"""
