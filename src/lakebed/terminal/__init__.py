"""Output for people: progress bars, and layers and sizes as text.

This layer owns all drawing, with rich or in plain text, for scripts, notebooks and the command. It
gets values and numbers, and does not know tables.
"""
