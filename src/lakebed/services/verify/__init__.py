"""Verify a whole table and report its problems; repair the problems that can be repaired.

`verify` reads and never writes. `plan` turns its findings into steps, and `repair` executes them
under the table's lock, checking each again before anything is deleted.
"""
