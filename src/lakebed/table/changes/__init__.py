"""The changes of a table between two points in time: incremental and change data reads.

`commit_range` selects the commits, `incremental` the slices that hold the rows they wrote, `plan`
the effect of each commit on each file group; `reader` returns the changed rows, from change data
(`cdc_file`) if there is any. Must not write.
"""
