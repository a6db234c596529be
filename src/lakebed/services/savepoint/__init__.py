"""Keep one commit and all files that its snapshot needs.

Owns what a savepoint says. That cleaning and archiving leave it alone is theirs.
"""
