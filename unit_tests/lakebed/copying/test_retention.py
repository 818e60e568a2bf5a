"""Which backup points stay."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.copying.retention import Point, Retention, kept_points
from lakebed.errors import InvalidInputError
from unit_tests.effort import examples

_START = datetime(2024, 11, 20, tzinfo=UTC)  # before a turn of the year that lies inside a week

_counts = st.integers(0, 5)
_rules = st.builds(Retention, last=_counts, daily=_counts, weekly=_counts, monthly=_counts)
_points = st.lists(st.integers(0, 24 * 150), max_size=25).map(
    lambda hours: [_point(hour, f"{number}") for number, hour in enumerate(hours)]
)


def _point(hours: float, name: str = "a") -> Point:
    return Point((_START + timedelta(hours=hours)).timestamp(), name)


def _modelled(points: list[Point], rule: Retention) -> set[Point]:
    """Ask of each point whether enough periods with a point come after its own, and whether it ends its own."""

    def when(point: Point) -> datetime:
        return datetime.fromtimestamp(point.time, UTC)

    def stays(point: Point) -> bool:
        later = [other for other in points if other > point]
        if not later or len(later) < rule.last:
            return True
        for count, form in ((rule.daily, "%Y-%m-%d"), (rule.weekly, "%G-%V"), (rule.monthly, "%Y-%m")):
            periods = {when(other).strftime(form) for other in later}
            if when(point).strftime(form) not in periods and len(periods) < count:
                return True
        return False

    if not (rule.last or rule.daily or rule.weekly or rule.monthly):
        return set(points)
    return {point for point in points if stays(point)}


@settings(max_examples=examples(160), deadline=None)
@given(_points, _rules)
def test_any_rule_keeps_what_the_model_keeps(points: list[Point], rule: Retention) -> None:
    kept = kept_points(points, rule)
    assert kept == _modelled(points, rule)
    assert kept_points(kept, rule) == kept  # nothing further goes the next time
    assert not points or max(points) in kept


def test_a_year_of_daily_backups() -> None:
    points = [_point(24 * day) for day in range(365)]  # to Wednesday, 2025-11-19
    kept = kept_points(points, Retention(daily=7, weekly=4, monthly=12))
    days = {f"{datetime.fromtimestamp(point.time, UTC):%Y-%m-%d}" for point in kept}
    week = {f"2025-11-{day}" for day in range(13, 20)}
    sundays = {"2025-11-09", "2025-11-02"}  # that of 2025-11-16 is one of the seven days
    ends = {"2024-12-31", "2025-01-31", "2025-02-28", "2025-03-31", "2025-04-30", "2025-05-31", "2025-06-30"}
    assert days == week | sundays | ends | {"2025-07-31", "2025-08-31", "2025-09-30", "2025-10-31"}


def test_a_pause_makes_no_older_points_go() -> None:
    points = [_point(0), _point(24), _point(24 * 300)]
    assert kept_points(points, Retention(daily=3)) == set(points)


def test_an_empty_rule_keeps_all_points() -> None:
    points = [_point(hour) for hour in range(5)]
    assert kept_points(points, Retention()) == set(points)


def test_the_same_week_of_another_year_is_another_week() -> None:
    points = [_point(0), _point(24 * 364)]
    assert kept_points(points, Retention(weekly=2)) == set(points)


@pytest.fixture
def _far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XST-12")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_far_east")
def test_days_are_those_of_utc() -> None:
    before, after = _point(23.99), _point(24.01)
    assert kept_points([before, after], Retention(daily=2)) == {before, after}


@pytest.mark.parametrize("count", [-1, 1.5, True, "7"])
def test_what_is_no_number_of_points_is_refused(count: object) -> None:
    with pytest.raises(InvalidInputError, match="daily must be a whole number"):
        Retention(daily=count)  # type: ignore[arg-type]
