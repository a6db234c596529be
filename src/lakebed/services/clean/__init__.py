"""Cleaning: delete file versions that no retained commit needs, and leftover files.

Owns the clean action of the timeline. Must not know where rows come from.
"""
