"""The public API: `create_table`, `open_table` and `Table`.

This layer checks arguments and chooses the engine; the layers below do the work.
"""
