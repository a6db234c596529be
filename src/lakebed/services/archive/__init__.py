"""Archiving: move old instants from the active timeline to the archived one.

Decides which instants may go and makes sure that nothing is read wrongly once they are gone.
Must not know how rows are stored.
"""
