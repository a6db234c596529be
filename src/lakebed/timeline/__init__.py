"""Instants on storage: the active timeline, the archived one, and new instants.

Owns the folder `.hoodie/timeline`. Must not know file groups, schemas or merging.
"""
