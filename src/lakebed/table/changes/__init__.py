"""What changed in a table between two moments: incremental and change data reads.

`commit_range` says which commits count, `incremental` which slices hold the rows that they
wrote, `plan` what each of them did to each file group, `reader` gives the changed rows, from
`cdc_file` where there is one. Must not write.
"""
