"""Predicates: parsed, bound to a schema, and evaluated on Arrow arrays.

The grammar is a subset of Spark's, with Spark's semantics in ANSI mode and in UTC.
"""
