"""The command `lakebed`: parse arguments, call, show.

Owns what operators see: tables, drawings, JSON and exit codes. Nothing below knows of it.
"""
