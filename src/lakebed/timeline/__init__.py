"""Instants on storage: the active timeline, the archived timeline, and transitions between states.

This layer owns the folder `.hoodie/timeline`. It does not know file groups, schemas or merging.
"""
