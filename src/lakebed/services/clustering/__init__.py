"""Clustering: merge the small file groups of a partition into larger ones with disjoint key ranges.

For tables with an index that looks keys up; with a bucket index, each bucket already is one sorted
file group.
"""
