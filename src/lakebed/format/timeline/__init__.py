"""What the files of a timeline hold: commits, plans, locks, heartbeats."""
