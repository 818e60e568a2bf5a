"""Statements that mean harm end in an answer or an error of queries, within bounds of time and memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from unit_tests.lakebed.query import hostile


def test_there_are_hundreds() -> None:
    assert sum(1 for _ in hostile.statements()) > 400


def _tried(*arguments: str) -> str:
    """Try statements in a process of their own, whose memory is limited."""
    command = [sys.executable, "-W", "error", "-m", "unit_tests.lakebed.query.hostile", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1000, check=False)
    told = "\n".join(line for line in done.stdout.splitlines() if "FAILED" in line)
    assert done.returncode == 0, f"{told}\n{done.stdout[-300:]}\n{done.stderr[-1000:]}"
    return done.stdout


def test_some_of_them() -> None:
    assert " 0 failed" in _tried("--every", "11")


@pytest.mark.soak
def test_all_of_them() -> None:
    assert " 0 failed" in _tried()
