"""Conversion of Parquet and Delta folders into tables."""
