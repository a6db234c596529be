"""The command `lakebed`: parse arguments, call the API, show results.

This layer owns the output for operators: tables, drawings, JSON and exit codes. No other package
imports it.
"""
