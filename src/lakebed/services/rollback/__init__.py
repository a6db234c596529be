"""Rollback of an instant: a pending one, or the newest completed one.

Owns the order of deletions: every intermediate state reads as before the rollback or as after it.
Must not decide when to roll back.
"""
