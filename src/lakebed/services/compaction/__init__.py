"""Compaction: merge the sorted runs of a file group into fewer.

FULL merges logs and base file (L0 + L1) into a new base file, LOG merges logs (L0) into one log.
"""
