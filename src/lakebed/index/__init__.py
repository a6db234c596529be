"""Indexes, which determine the file group of a record key.

This layer owns the writer's index: bucket numbers, file ids, and the check that an index matches a
table. It does not know transactions or engines.
"""
