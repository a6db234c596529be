"""Show what these tests counted."""

from support.figures import show_figures

pytest_terminal_summary = show_figures("tests/soak")
