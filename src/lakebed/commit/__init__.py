"""Transactions: lock, start, reconcile files, complete or roll back.

Owns the order of steps that makes a write atomic. Must not know where rows come from or which
engine ran the tasks.
"""
