"""The content of the files of a timeline: commits, plans, locks, heartbeats."""
