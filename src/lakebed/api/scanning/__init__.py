"""A read as a value, which Polars and DuckDB execute.

What these push down becomes columns and a predicate of ours. A predicate pushed down is a hint: it is
left out unless it is certain to keep every row that the other engine keeps, and the other engine's
own predicate is applied to the rows as well.
"""
