"""Bars on terminals, lines in logs, nothing where none is asked for."""

from __future__ import annotations

import pytest

from lakebed.runtime import progress
from lakebed.runtime.progress import rows_bar


def test_nothing_is_shown_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    with rows_bar("work", 10, shown=False) as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")


def test_a_log_gets_a_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    with rows_bar("work", 1000, done=200, shown=True) as advance:
        for _ in range(13):
            now[0] += 10
            advance(20)
    assert capsys.readouterr().err.splitlines() == [
        "work: 320 of 1000 (32%) rows, 2 rows/s, 340 s left",
        "work: 440 of 1000 (44%) rows, 2 rows/s, 280 s left",
    ]


def test_without_a_total_there_is_no_share(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    with rows_bar("work", None, shown=True) as advance:
        now[0] = 61
        advance(122)
    assert capsys.readouterr().err == "work: 122 rows, 2 rows/s\n"


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with rows_bar("work", 10, shown=True) as advance:
        advance(10)
    assert "work: 100%" in capsys.readouterr().err
