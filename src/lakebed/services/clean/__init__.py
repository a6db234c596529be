"""Cleaning: delete file versions that no retained moment of the table needs, and leftovers.

Owns the clean action of the timeline. Must not know where rows come from.
"""
