"""Transactions: lock, start, reconcile files, complete or roll back.

This layer owns the order of steps that makes a write atomic. It does not know where rows come
from or which engine runs the tasks.
"""
