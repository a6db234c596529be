"""The files of a table: groups and slices, which of them count, which are lost."""
