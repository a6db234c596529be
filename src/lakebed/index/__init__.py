"""Where a record key belongs: from keys to file groups.

Owns the writer's index: bucket numbers, file ids, and the check that an index fits
a table. Must not know transactions or engines.
"""
