"""Instants on storage: the active timeline, the archived timeline, and state transitions.

Owns the folder `.hoodie/timeline`. Must not know file groups, schemas or merging.
"""
