"""The public API: `create_table`, `open_table`, `Table`.

Owns argument checks and the choice of engine; the work is done in the layers below.
"""
