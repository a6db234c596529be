"""The command `lakebed`: parses arguments, calls the API, shows results.

Owns the output for operators: tables, drawings, JSON and exit codes. No other package depends on
it.
"""
