"""Savepoints: keep one commit and all files that its snapshot needs.

Owns the content of a savepoint. Cleaning and archiving themselves respect it.
"""
