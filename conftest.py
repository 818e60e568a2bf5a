"""What all tests share: how much they try, what they cost, and an environment in which it does not matter who began.

The proofs say at the end how much they have tried, and with which seeds.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Links of tests are nothing that later processes of whoever runs them should follow.
os.environ["LAKEBED_REMEMBER_LINKS"] = "0"
# A third of what `import numpy` takes, in each of the hundreds of processes that tests start, is threads of OpenBLAS.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from unit_tests import effort

pytest_plugins = ["unit_tests.cost"]

effort.set_up_property_tests()


def pytest_configure(config: pytest.Config) -> None:
    """Take SIGINT again where a shell has it ignored: background jobs inherit that, and so would what tests start.

    Those are hundreds of processes: none of them compiles the library again. While tests are collected nothing is
    garbage, and to look for it takes a fifth of that.
    """
    gc.disable()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    worker: dict[str, object] = getattr(config, "workerinput", {})
    if worker and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        # Each process begins with other files, so that not all of them compile the same files at the same time.
        files = sorted(str(path) for folder in config.args for path in Path(folder).rglob("test_*.py"))
        start = len(files) * int(str(worker["workerid"])[2:]) // int(str(worker["workercount"]))
        config.args = files[start:] + files[:start]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests into one order, since processes collect them in different ones.

    First: then pytest brings tests together that share a fixture of a module with the same parameter.
    """
    items.sort(key=lambda item: item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Leave the settings of the library as they were: a connector that ran in this process has set some for itself."""
    config = sys.modules.get("lakebed.config")
    before = dict(vars(config)) if config is not None else {}
    result = yield
    if config is not None:
        vars(config).update(before)
    return result


def pytest_collection_finish() -> None:
    """Leave what is there by now, half a million objects, out of the collections of garbage that tests ask for."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_unconfigure() -> None:
    """Let it go as it would have gone: some libraries look at the end for what is left."""
    gc.unfreeze()


def pytest_report_header() -> str:
    """Say what is tried, and what repeats it."""
    return f"effort: LAKEBED_TESTS={effort.LEVEL}, LAKEBED_SEED={effort.seed()}"


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
