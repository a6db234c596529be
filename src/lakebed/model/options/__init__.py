"""The options: each option is an entry, which `registry` finds by any of its names.

`option` defines the parts of an entry. The entries are constants in `table` (fixed when a table is
created), `writers` and `services` (which may change later) and `data_source` (for one read or write
of `format("lakebed")`); `hudi` lists Apache Hudi's options that are ignored or rejected.

To add an option, add one entry; its consumer calls `ENTRY.value(properties)`.
"""
