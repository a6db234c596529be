"""Figures that tests find, shown after a run whatever its workers captured."""

from collections.abc import Callable

import pytest

FIGURE = "figure"


def show_figures(folder: str) -> Callable[[pytest.TerminalReporter], None]:
    """Return the hook that prints the figures of the tests below `folder`."""

    def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
        lines = [
            str(value)
            for reports in terminalreporter.stats.values()
            for report in reports
            if getattr(report, "when", "") == "call" and report.nodeid.startswith(folder)
            for name, value in report.user_properties
            if name == FIGURE
        ]
        if lines:
            terminalreporter.section(f"figures of {folder}")
            for line in sorted(lines):
                terminalreporter.line(line)

    return pytest_terminal_summary
