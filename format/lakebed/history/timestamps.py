"""A moment as a user specifies it: a datetime, POSIX seconds, or ISO text."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from numbers import Real

from lakebed.errors import InvalidInputError

Timestamp = datetime | date | float | str

# The time after the date; the smallest part that is present (hours, minutes, seconds) is the length of the period.
_TIME = re.compile(
    r"[T ]\d\d(?P<minute>:?\d\d(?P<second>:?\d\d(?P<fraction>[.,]\d+)?)?)?(Z|[+-]\d\d(:?\d\d)?)?$"
)
_DAY, _HOUR, _MINUTE, _SECOND = 86400, 3600, 60, 1


def posix_seconds(timestamp: Timestamp) -> float:
    """Return a moment in POSIX seconds.

    A ``datetime`` needs a time zone. Text without a time zone is UTC, as the log prints it. Text that names a day, an
    hour, a minute or a second means the end of that period, and a ``date`` means the end of the day, because a commit
    whose time is printed as 12:00:05 was made slightly later.

    Raises
    ------
    InvalidInputError
        If ``timestamp`` is not a time, or is a ``datetime`` without a time zone.
    """
    if isinstance(timestamp, datetime):
        if timestamp.tzinfo is None:
            raise InvalidInputError(
                f"{timestamp!r} has no time zone, so it can mean local time or UTC: use moment.astimezone() for local "
                "time, or moment.replace(tzinfo=datetime.UTC)"
            )
        return timestamp.timestamp()
    if isinstance(timestamp, date):
        return _end(datetime(timestamp.year, timestamp.month, timestamp.day, tzinfo=UTC), _DAY)
    if isinstance(timestamp, str):
        return _parsed(timestamp.strip())
    if isinstance(timestamp, Real) and not isinstance(timestamp, bool) and math.isfinite(timestamp):
        return float(timestamp)
    raise InvalidInputError(f"{timestamp!r:.80} is not a time: give a datetime, POSIX seconds, or ISO text")


def _parsed(text: str) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(
            f"{text!r:.80} is not an ISO time; write 2026-11-21, 2026-11-21 09:30, or 2026-11-21T09:30:00+01:00"
        ) from error
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    time = _TIME.search(text)
    if time is None:
        return _end(found, _DAY)
    if time["fraction"]:
        return found.timestamp()
    return _end(found, _SECOND if time["second"] else _MINUTE if time["minute"] else _HOUR)


def _end(start: datetime, seconds: int) -> float:
    return math.nextafter(start.timestamp() + seconds, 0.0)
