"""Access to the bytes of one table's folder: read a range, put if absent, list, delete.

Owns every call to a file system or object store, and translates their failures into Lakebed's
errors. Must not know Hudi: here a path is a string below a root, and content is bytes.
"""
