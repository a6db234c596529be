"""Access to the bytes in one table's folder: read a range, put if absent, list, delete.

This layer owns every call to a file system or object store, and translates failures into Lakebed's
errors. It does not know Hudi: a path is a string below a root, and content is bytes.
"""
