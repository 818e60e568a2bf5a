"""Moments as users give them."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import InvalidInputError
from lakebed.history.timestamps import posix_seconds
from lakebed.runtime import clock

NOON = datetime(2026, 11, 21, 12, 0, 5, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "first_after"),
    [
        ("2026-11-21", "2026-11-22 00:00:00"),
        ("20261121", "2026-11-22 00:00:00"),
        ("2026-W47-6", "2026-11-22 00:00:00"),
        ("2026-11-21T12", "2026-11-21 13:00:00"),
        ("2026-11-21 12:00", "2026-11-21 12:01:00"),
        ("2026-11-21T12:00Z", "2026-11-21 12:01:00"),
        ("2026-11-21 12:00:05", "2026-11-21 12:00:06"),
        ("20261121T120005", "2026-11-21 12:00:06"),
        (" 2026-11-21T12:00:05+01:00 ", "2026-11-21 11:00:06"),
        ("2026-11-21T12+0100", "2026-11-21 12:00:00"),
    ],
)
def test_text_means_the_end_of_what_it_names(text: str, first_after: str) -> None:
    """A day, an hour, a minute or a second is over when the next one begins, and not before."""
    end = datetime.fromisoformat(first_after).replace(tzinfo=UTC).timestamp()
    assert posix_seconds(text) < end <= posix_seconds(text) + 1e-6


def test_text_without_a_zone_is_utc_wherever_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log prints UTC everywhere, and so it is read."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert posix_seconds("2026-11-21 12:00:05.0") == NOON
        assert clock.utc(NOON) == "2026-11-21 12:00:05"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_exact_moments() -> None:
    """What names no period is that moment."""
    zone = timezone(timedelta(hours=5, minutes=30))
    assert posix_seconds("2026-11-21T12:00:05.25") == NOON + 0.25
    assert posix_seconds("2026-11-21T12:00:05,250") == NOON + 0.25
    assert posix_seconds(datetime(2026, 11, 21, 17, 30, 5, tzinfo=zone)) == NOON
    assert posix_seconds(int(NOON)) == posix_seconds(NOON) == posix_seconds(np.float64(NOON)) == NOON
    assert posix_seconds(np.int64(5)) == 5
    assert posix_seconds(date(2026, 11, 21)) == posix_seconds("2026-11-21")


@given(st.floats(0, 4e9))
def test_what_the_log_prints_opens_what_it_shows(seconds: float) -> None:
    """The printed time of a commit, taken as a moment, is not before that commit."""
    assert 0 <= posix_seconds(clock.utc(seconds)) - seconds < 1.000001


@pytest.mark.parametrize(
    "timestamp",
    [
        "",
        "yesterday",
        "2026-13-01",
        "12:00",
        datetime(2026, 11, 21),  # noqa: DTZ001
        True,
        None,
        [],
        float("nan"),
        float("inf"),
    ],
    ids=repr,
)
def test_what_is_no_moment(timestamp: object) -> None:
    """A guess is not made; a datetime without a zone could be local time or UTC."""
    with pytest.raises(InvalidInputError, match=r"time zone|not an ISO time|not a time"):
        posix_seconds(timestamp)  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [1e18, -1e18, float("nan"), float("inf")])
def test_times_that_no_calendar_has_are_shown_as_numbers(seconds: float) -> None:
    """A commit with a damaged time can still be listed."""
    assert clock.utc(seconds) == f"{seconds} s since 1970"
