"""The bytes of log files: blocks, delete records, footers of native logs, change data."""
