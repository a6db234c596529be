"""What a person sees: progress bars, and layers and sizes as text.

Owns what is drawn, with rich or in plain text, for scripts, notebooks and the command. Must not
know tables: it gets values and numbers.
"""
