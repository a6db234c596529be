"""Take back an instant: a pending one, or the newest that completed.

Owns the order of deletions in which every state between reads as before or as after.
Must not decide when a rollback is wanted.
"""
