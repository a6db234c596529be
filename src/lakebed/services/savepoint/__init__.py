"""Savepoints: keep one commit and all files that its snapshot needs.

Owns the content of savepoints; cleaning and archiving keep what they list.
"""
