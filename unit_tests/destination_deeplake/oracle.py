"""What a column must hold for a JSON value, in plain Python; nothing of it is shared with the compiled code."""

import base64
import datetime as dt
import json
import math
import re
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from destination_deeplake.columns import Kind

Value = str | int | float | bool | bytes | list[float] | None

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_NAMED = f"(?i:{'|'.join(_MONTHS)})"
_DATES = (
    r"(?P<year>[+-]?\d{4,9})-(?P<month>\d{1,2})-(?P<day>\d{1,2})",
    rf"(?P<year>\d{{4}})(?P<between>[-/. ])(?P<month>\d{{1,2}}|{_NAMED})(?P=between)(?P<day>\d{{1,2}})",
    rf"(?P<year>\d{{4}})(?P<month>\d{{2}}|{_NAMED})(?P<day>\d{{2}})",
)
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(:(?P<second>\d{2})([.,](?P<fraction>\d+))?)?"
_OFFSET = r"( ?(?P<zone>[Zz]|UTC|GMT|[+-]\d{2}(:?\d{2}(:?\d{2})?)?))?"
_MOMENTS = [re.compile(rf"{date}([Tt ]{_TIME}{_OFFSET})?(?P<era> BC| AD)?", re.ASCII) for date in _DATES]
_CLOCK = re.compile(_TIME + _OFFSET, re.ASCII)
_DAY = 86_400_000_000
_EPOCH = dt.date(1970, 1, 1).toordinal()


class _Number(str):
    """The text of a JSON number."""

    __slots__ = ()


class Cell(NamedTuple):
    """A value and whether it is a null because the source's value did not fit."""

    value: Value
    refused: bool = False


REFUSED = Cell(None, refused=True)


def parsed(text: str) -> Any:
    """Parse JSON; numbers stay texts, NaN and Infinity are errors."""

    def reject(_name: str) -> None:
        raise ValueError("no JSON")

    return json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=reject)


def expected(kind: Kind, text: str) -> Cell:
    """Return what a column of a kind holds for the JSON value with this text."""
    value = parsed(text)
    if value is None:
        return Cell(None)
    if kind is Kind.JSON:
        return Cell(text)
    if kind is Kind.TEXT:
        return _text(value, text)
    if isinstance(value, _Number):
        return _number(kind, value)
    if isinstance(value, list) and kind is Kind.FLOATS:
        return _floats(value)
    if isinstance(value, str):
        return _READERS[kind](value.strip(" "))
    if isinstance(value, bool) and kind is Kind.BOOL:
        return Cell(value)
    return REFUSED


def _text(value: Any, text: str) -> Cell:
    if isinstance(value, _Number | bool):
        return Cell(text)
    if not isinstance(value, str):
        return Cell(
            compact(json.loads(text, parse_int=_Number, parse_float=_Number, object_pairs_hook=_Members))
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        return REFUSED
    return Cell(value)


class _Members(list[tuple[str, Any]]):
    """The members of a JSON object, in order, duplicate keys included."""


_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def compact(value: Any) -> str:
    """Return JSON as Jackson writes it, numbers as they are; half a surrogate pair as an escape."""
    if isinstance(value, _Number):
        return value
    if isinstance(value, str):
        letters = (
            _SHORT.get(
                letter, f"\\u{ord(letter):04X}" if letter < " " or "\ud800" <= letter < "\ue000" else letter
            )
            for letter in value
        )
        return '"' + "".join(letters) + '"'
    if isinstance(value, _Members):
        return "{" + ",".join(f"{compact(name)}:{compact(member)}" for name, member in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(compact, value)) + "]"
    return {None: "null", True: "true", False: "false"}[value]


def _number(kind: Kind, text: str) -> Cell:
    if kind is Kind.EXACT:
        return Cell(text)
    if kind is Kind.FLOAT64:
        nearest = float(text)
        return Cell(nearest) if math.isfinite(nearest) else REFUSED
    exact = Fraction(text)
    if kind is Kind.INT64 and exact.denominator == 1 and -(2**63) <= exact < 2**63:
        return Cell(int(exact))
    if kind is Kind.BOOL and exact in (0, 1):
        return Cell(bool(exact))
    return REFUSED


def _number_in_string(kind: Kind, text: str) -> Cell:
    if _NUMBER.fullmatch(text):
        if kind is Kind.EXACT:
            return Cell(text)
        # The grammar of Fraction wants a digit on both sides of the point.
        return _number(kind, re.sub(r"(?<!\d)\.", "0.", re.sub(r"\.(?!\d)", ".0", text)))
    special = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    if text not in special or kind is Kind.INT64:
        return REFUSED
    return Cell(text if kind is Kind.EXACT else special[text])


def _floats(values: list[Any]) -> Cell:
    if not all(isinstance(value, _Number) for value in values):
        return REFUSED
    numbers = [float(value) for value in values]
    if not all(map(math.isfinite, numbers)):  # beyond a double already
        return REFUSED
    try:
        return Cell([struct.unpack("<f", struct.pack("<f", number))[0] for number in numbers])
    except OverflowError:
        return REFUSED


def _floats_in_string(text: str) -> Cell:
    try:
        value = parsed(text)
    except ValueError:
        return REFUSED
    return _floats(value) if isinstance(value, list) else REFUSED


_BLANKS = re.compile("[ \t\n\v\f\r]+")


def _bytes_in_string(text: str) -> Cell:
    text = _BLANKS.sub("", text)
    if text[:5].lower() == "data:":
        head, comma, text = text.partition(",")
        if not comma or not head.lower().endswith(";base64"):
            return REFUSED
    match = re.fullmatch("([A-Za-z0-9+/_-]*)(=*)", text)
    if match is None or len(match[1]) % 4 == 1 or len(match[2]) not in (0, -len(match[1]) % 4):
        return REFUSED
    symbols = match[1].translate({ord("-"): "+", ord("_"): "/"})
    return Cell(base64.b64decode(symbols + "=" * (-len(symbols) % 4)))


def _bool_in_string(text: str) -> Cell:
    return Cell(text.lower() == "true") if text.lower() in ("true", "false") and text.isascii() else REFUSED


def _days(year: int, month: int, day: int) -> int | None:
    """Return days since 1970; the calendar repeats every 400 years."""
    cycles, of_cycle = divmod(year, 400)
    try:
        ordinal = dt.date(of_cycle + 400, month, day).toordinal()
    except ValueError:
        return None
    return ordinal - _EPOCH + (cycles - 1) * 146_097


def _time(match: re.Match[str]) -> int | None:
    """Return the microsecond of the day."""
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 60:
        return None
    fraction = 0 if second == 60 else int(((match["fraction"] or "") + "000000")[:6])
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction


def _offset(zone: str | None) -> int | None:
    """Return microseconds east of UTC."""
    if zone is None or zone in "ZzUTCGMT":
        return 0
    digits = zone[1:].replace(":", "") + "0000"
    hours, minutes, seconds = int(digits[:2]), int(digits[2:4]), int(digits[4:6])
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    return (-1 if zone[0] == "-" else 1) * ((hours * 60 + minutes) * 60 + seconds) * 1_000_000


def _year(match: re.Match[str]) -> int | None:
    year = int(match["year"])
    if not match["era"]:
        return year
    if year == 0 or match["year"][0] in "+-":
        return None
    return year if match["era"] == " AD" else 1 - year


def _month(text: str) -> int:
    return int(text) if text.isdigit() else _MONTHS.index(text.lower()) + 1


def _moment(text: str) -> tuple[int, int, int] | None:
    """Return day, microsecond of the day, offset."""
    match = next(filter(None, (form.fullmatch(text) for form in _MOMENTS)), None)
    if match is None:
        return None
    year, time, offset = _year(match), 0, _offset(match["zone"])
    if match["hour"]:
        found = _time(match)
        if found is None:
            return None
        time = found
    if year is None or offset is None:
        return None
    days = _days(year, _month(match["month"]), int(match["day"]))
    return None if days is None else (days, time, offset)


def _date_in_string(text: str) -> Cell:
    moment = _moment(text)
    return Cell(moment[0]) if moment and -(2**31) <= moment[0] < 2**31 else REFUSED


def _timestamp_in_string(text: str, *, zoned: bool) -> Cell:
    moment = _moment(text)
    if moment is None:
        return REFUSED
    micros = moment[0] * _DAY + moment[1] - (moment[2] if zoned else 0)
    return Cell(micros) if -(2**63) <= micros < 2**63 else REFUSED


def _time_in_string(text: str, *, zoned: bool) -> Cell:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return REFUSED
    time, offset = _time(match), _offset(match["zone"])
    if time is None or offset is None:
        return REFUSED
    return Cell((time - (offset if zoned else 0)) % _DAY)


_READERS: dict[Kind, Callable[[str], Cell]] = {
    Kind.INT64: lambda text: _number_in_string(Kind.INT64, text),
    Kind.FLOAT64: lambda text: _number_in_string(Kind.FLOAT64, text),
    Kind.BOOL: _bool_in_string,
    Kind.EXACT: lambda text: _number_in_string(Kind.EXACT, text),
    Kind.BYTES: _bytes_in_string,
    Kind.FLOATS: _floats_in_string,
    Kind.TIMESTAMP_TZ: lambda text: _timestamp_in_string(text, zoned=True),
    Kind.TIMESTAMP: lambda text: _timestamp_in_string(text, zoned=False),
    Kind.DATE: _date_in_string,
    Kind.TIME_TZ: lambda text: _time_in_string(text, zoned=True),
    Kind.TIME: lambda text: _time_in_string(text, zoned=False),
}
