"""Clustering: the small file groups of a partition merged in key order into large ones.

Each new file group holds a range of keys of its own. For tables whose keys are looked up; with a
bucket index a bucket is one sorted file group already.
"""
