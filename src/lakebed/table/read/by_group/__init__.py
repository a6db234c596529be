"""What reads of several column groups need besides the merge of each.

A base file of all columns seen as that of some groups, the keys that a predicate or deletes of one
group select for the others.
"""
