"""Retention of backup points: the newest points, and the newest point of each of the latest days, weeks and months.

Pure: a function of points and a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime

from lakebed.errors import InvalidInputError


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A complete backup.

    Parameters
    ----------
    time
        Time of the backup, in POSIX seconds.
    name
        Id of the point.
    """

    time: float
    name: str


@dataclass(frozen=True, slots=True)
class Retention:
    """A rule that says how many points are kept.

    Days, weeks and months are those of UTC, and weeks begin on Monday. Only days, weeks and months with a point are
    counted: a pause in the backups removes none of the older points.

    Parameters
    ----------
    last
        Number of newest points.
    daily
        Number of days whose newest point is kept.
    weekly
        Number of weeks whose newest point is kept.
    monthly
        Number of months whose newest point is kept.
    """

    last: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0

    def __post_init__(self) -> None:
        """Refuse values that are not whole numbers of 0 or more."""
        for each in fields(self):
            count = getattr(self, each.name)
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise InvalidInputError(f"{each.name} must be a whole number of 0 or more, not {count!r}")

    @property
    def is_empty(self) -> bool:
        """Whether all numbers of the rule are 0."""
        return not (self.last or self.daily or self.weekly or self.monthly)


def kept_points(points: Iterable[Point], rule: Retention) -> set[Point]:
    """Return the points to keep; the newest is always among them, and an empty rule keeps all.

    Parameters
    ----------
    points
        The complete backups, in any order.
    rule
        Numbers of points to keep.
    """
    newest_first = sorted(points, reverse=True)
    if rule.is_empty:
        return set(newest_first)
    kept = set(newest_first[: max(rule.last, 1)])
    for count, period in ((rule.daily, _day), (rule.weekly, _week), (rule.monthly, _month)):
        kept.update(_newest_of_each(newest_first, count, period))
    return kept


def _newest_of_each(
    newest_first: Iterable[Point], count: int, period: Callable[[date], tuple[int, ...]]
) -> Iterator[Point]:
    seen: set[tuple[int, ...]] = set()
    for point in newest_first:
        within = period(datetime.fromtimestamp(point.time, UTC).date())
        if within in seen:
            continue
        if len(seen) >= count:
            return
        seen.add(within)
        yield point


def _day(day: date) -> tuple[int, ...]:
    return (day.toordinal(),)


def _week(day: date) -> tuple[int, ...]:
    # Use the year that the week belongs to: the last days of December may be in the first week of the next year.
    return day.isocalendar()[:2]


def _month(day: date) -> tuple[int, ...]:
    return (day.year, day.month)
