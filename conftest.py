"""What all tests share: the proofs say at the end how much they have tried, and with which seeds."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests recorded with ``record_property("proof", ...)``, whether they passed or not."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    lines = [
        f"{text} [{report.outcome}]"
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, text in report.user_properties
        if name == "proof"
    ]
    if lines:
        terminalreporter.section("proofs")
        for line in lines:
            terminalreporter.write_line(line)
