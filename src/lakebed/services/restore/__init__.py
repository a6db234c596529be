"""Restore of a table to a savepoint: every later instant is rolled back, newest first.

Owns which instants are rolled back and in which order; `services.rollback` rolls back each.
"""
