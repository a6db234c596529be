"""Archiving: move old instants from the active timeline to the archived timeline.

Decides which instants can be archived, and makes sure that readers still see the same rows
afterwards. Must not know how rows are stored.
"""
