"""Bytes in and out of one table's folder: read a range, put if absent, list, delete.

Owns every call to a file system or object store, and turns their failures into our
errors. Must not know Hudi: a path here is text below a root, and content is bytes.
"""
