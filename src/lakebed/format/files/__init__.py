"""Parquet footers, pages and statistics; Java properties files."""
