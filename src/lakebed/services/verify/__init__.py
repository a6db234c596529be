"""Look at a whole table and say what is wrong with it; mend what can be mended.

`verify` reads and never writes. `plan` turns what it found into steps, and `repair` does them
under the table's lock, each looked at once more before anything is deleted.
"""
