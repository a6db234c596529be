"""The bytes of log files: blocks, delete records, footers of native logs, and change data."""
