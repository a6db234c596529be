"""The options: every one is an entry, and `registry` finds it by any of its names.

`option` has what an entry consists of. The entries are constants in `table` (settled when a table
is made), `writers` and `services` (may change later) and `data_source` (one read or one write of
`format("lakebed")`); `hudi` lists those of Apache Hudi's that change nothing here or are refused.
Adding an option means adding one entry; what consumes it calls `ENTRY.value(properties)`.
"""
