"""Bring a table back to a savepoint: every later instant is rolled back, newest first.

Owns which instants go and in which order. How one goes is `services.rollback`'s.
"""
