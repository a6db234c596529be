"""Lakebed: LSM tables of sorted Parquet runs for PySpark, on Apache Hudi's table format."""
