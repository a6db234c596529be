"""What changed in a table between two points in time: incremental and change data reads.

`commit_range` selects the commits, `incremental` the slices that hold the rows they wrote, `plan`
what each of them did to each file group; `reader` returns the changed rows, from `cdc_file` if
there is one. Must not write.
"""
