"""The options: each option is an entry, which `registry` finds by any of its names.

`option` defines the parts of an entry. The entries are constants in `table` (fixed when a table is
created), `writers` and `services` (may change later) and `data_source` (one read or one write of
`format("lakebed")`); `hudi` lists Apache Hudi's options that have no effect here or are rejected.
Adding an option means adding one entry; its consumer calls `ENTRY.value(properties)`.
"""
