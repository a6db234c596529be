"""The command `lakebed`: parses arguments, calls the API, shows results.

Owns what operators see: tables, drawings, JSON and exit codes. No other package depends on it.
"""
