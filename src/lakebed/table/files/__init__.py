"""The files of a table: groups and slices, which files are visible, which are lost."""
