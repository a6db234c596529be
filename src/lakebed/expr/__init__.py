"""Predicates: parsed, bound to a schema, and evaluated on Arrow arrays.

The grammar is a subset of Spark's; the semantics are Spark's in ANSI mode and in the time zone UTC.
"""
