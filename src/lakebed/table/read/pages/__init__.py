"""A few rows of Parquet files by their pages: which pages hold keys, reading them, keeping them."""
