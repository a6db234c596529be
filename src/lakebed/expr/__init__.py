"""Predicates: text parsed by a grammar of our own, bound to a schema, evaluated on Arrow arrays.

The grammar is a part of Spark's, with Spark's meaning in ANSI mode and in UTC.
"""
