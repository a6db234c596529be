"""`Table.merge` and `Table.update`: the builder, and the choice of how a merge is executed."""
