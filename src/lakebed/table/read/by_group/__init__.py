"""What reads of several column groups need besides the merge of each.

Which group is read first, and the keys that its predicate or its deletes select in the others.
"""
