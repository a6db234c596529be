"""Indexes: they determine which file group a record key belongs to.

Owns the writer's index: bucket numbers, file ids, and the check that an index matches a table. Must
not know transactions or engines.
"""
