"""Output for people: progress bars, and layers and sizes as text.

Owns all drawing, with rich or in plain text, for scripts, notebooks and the command. Must not
know tables: it gets values and numbers.
"""
