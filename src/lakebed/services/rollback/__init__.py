"""Rollback of an instant: a pending one, or the newest that completed.

Owns the order of deletions in which every intermediate state reads as before or as after. Must not
decide when to roll back.
"""
