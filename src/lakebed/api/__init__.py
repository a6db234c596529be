"""The front door: `create_table`, `open_table`, `Table`.

Owns argument checks and the choice of engine. Thin: the work is below.
"""
