"""From files to rows: sources, runs, filters, merged slices."""
