"""What the tests cost, in seconds of CPU: the suite has a budget of it, and the wall clock of a busy machine lies.

Counted are the process that runs a test and the processes that it started and waited for.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_SHOWN = 15
_PROPERTY = "cpu"


def own() -> float:
    """Return the CPU that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def children() -> float:
    """Return the CPU that its children that have ended have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds() -> float:
    """Return both."""
    return own() + children()


class Cost:
    """A plugin that counts: in each process that runs tests, and together in the one that reports."""

    def __init__(self) -> None:
        self._workers = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        item.stash[_BEGUN] = seconds()
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Servers of the session end after the last test, which is not charged with what they did for all."""
        if nextitem is None:
            item.stash[_ENDED] = seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        if call.when == "teardown":
            item.user_properties.append(
                (_PROPERTY, round(item.stash.get(_ENDED, seconds()) - item.stash[_BEGUN], 3))
            )
        return (yield)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_PROPERTY] = seconds()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._workers += getattr(node, "workeroutput", {}).get(_PROPERTY, 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the dearest tests and the sum; all of them into the file that LAKEBED_TEST_COSTS names."""
        costs = sorted(
            (
                (spent, report.nodeid)
                for reports in terminalreporter.stats.values()
                for report in reports
                if isinstance(report, pytest.TestReport) and report.when == "teardown"
                for name, spent in report.user_properties
                if name == _PROPERTY
            ),
            reverse=True,
        )
        if not costs:
            return
        if place := os.environ.get("LAKEBED_TEST_COSTS"):
            Path(place).write_text("".join(f"{spent}\t{nodeid}\n" for spent, nodeid in costs))
        # Workers that have ended are children as well.
        total = own() + max(self._workers, children())
        terminalreporter.section(f"CPU: {total / 60:.1f} minutes, {len(costs)} tests; the dearest")
        for spent, nodeid in costs[:_SHOWN]:
            terminalreporter.write_line(f"{spent:7.2f}s {nodeid}")


_BEGUN: pytest.StashKey[float] = pytest.StashKey()
_ENDED: pytest.StashKey[float] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Cost(), "cost")
