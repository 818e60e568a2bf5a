"""One JSON value -> one cell: everything that `columns` promises about kinds."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from destination_deeplake.columns import Kind
from unit_tests.destination_deeplake.oracle import Cell, expected
from unit_tests.destination_deeplake.spellings import dates, moments, numbers, values
from unit_tests.destination_deeplake.tables import fill, record, table, take
from unit_tests.effort import examples


def cells(kind: Kind, texts: Sequence[str]) -> list[Cell]:
    """Return what a column holds after one row for each JSON text."""
    target = table({"f": kind})
    fill(target, *(record(f'{{"f":{text}}}') for text in texts))
    taken = take(target)
    changes = [json.loads(meta)["changes"] for meta in taken["_airbyte_meta"]]
    change = {"field": "f", "change": "NULLED", "reason": "DESTINATION_SERIALIZATION_ERROR"}
    assert all(entries in ([], [change]) for entries in changes)
    return [Cell(value, bool(entries)) for value, entries in zip(taken["f"], changes, strict=True)]


def same(found: Cell, wanted: Cell) -> bool:
    """Compare to the bit: NaN is itself, 0.0 is not -0.0, True is not 1."""
    return found.refused == wanted.refused and repr(found.value) == repr(wanted.value)


def check(kind: Kind, *texts: str) -> None:
    wanted = [expected(kind, text) for text in texts]
    for text, found, want in zip(texts, cells(kind, texts), wanted, strict=True):
        assert same(found, want), (kind, text)


@settings(max_examples=examples(600))
@given(st.sampled_from(Kind), st.lists(values, min_size=1, max_size=12))
def test_every_value_becomes_what_the_oracle_says(kind: Kind, texts: list[str]) -> None:
    check(kind, *texts)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('["a", "b"]', '["a","b"]'),
        ('{"z" : {"b":\t[ ]}, "a": null}', '{"z":{"b":[]},"a":null}'),
        (r'["\u00e9\ud83d\ude00\/", "é"]', '["é😀/","é"]'),
        (r'["\u0000\u001f\u000a\u0022\u005c ,: \" \\"]', r'["\u0000\u001F\n\"\\ ,: \" \\"]'),
        (r'["\ud800", "\udc00\ud800"]', r'["\uD800","\uDC00\uD800"]'),
        ("[ 1.50, 1e3, -0, 12345678901234567890 ]", "[1.50,1e3,-0,12345678901234567890]"),
        ('{"a": 1, "a": 2}', '{"a":1,"a":2}'),
        ("1.50", "1.50"),
        ("true", "true"),
    ],
)
def test_what_is_no_string_becomes_compact_json_in_a_text_column(text: str, wanted: str) -> None:
    assert cells(Kind.TEXT, [text]) == [Cell(wanted)]
    assert expected(Kind.TEXT, text) == Cell(wanted)


def test_documents_stay_as_the_source_wrote_them() -> None:
    assert cells(Kind.JSON, [r'["a", "\u00e9"]']) == [Cell(r'["a", "\u00e9"]')]


@settings(max_examples=examples(400))
@given(st.lists(st.one_of(moments, dates).map(json.dumps), min_size=1, max_size=12))
def test_every_date_and_time_becomes_what_the_oracle_says(texts: list[str]) -> None:
    for kind in (Kind.TIMESTAMP_TZ, Kind.TIMESTAMP, Kind.DATE, Kind.TIME_TZ, Kind.TIME):
        check(kind, *texts)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_doubles_come_back_to_the_bit(doubles: list[float]) -> None:
    check(Kind.FLOAT64, *map(repr, doubles))


@given(st.lists(numbers, min_size=1, max_size=20))
def test_numbers_round_to_the_nearest_double(texts: list[str]) -> None:
    check(Kind.FLOAT64, *texts)
    check(Kind.INT64, *texts)


@settings(max_examples=examples(600))
@given(st.integers(1, 2**53 - 1), st.integers(-1074, 971))
@example(2**53 - 1, 971)
@example(1, -1074)
def test_numbers_half_way_between_two_doubles_round_to_even(mantissa: int, power: int) -> None:
    # The exact decimal of (mantissa + 1/2) * 2**power, and its neighbours in the last digit.
    if power >= 1:
        text = str((2 * mantissa + 1) * 2 ** (power - 1))
    else:
        shift = 1 - power
        text = f"{(2 * mantissa + 1) * 5**shift}e-{shift}"
    head, _, tail = text.partition("e")
    nearby = [str(int(head) + step) + ("e" + tail if tail else "") for step in (-1, 0, 1)]
    check(Kind.FLOAT64, *nearby)


@pytest.mark.parametrize(
    "text",
    [
        "9007199254740993", "9007199254740992.9999999999999999999999999999", "1e22", "1e23", "8.5e-324",
        "2.4703282292062327e-324", "2.4703282292062328e-324", "1.7976931348623157e308", "1.7976931348623158e308",
        "1.7976931348623159e308", "2.2250738585072011e-308", "2.2250738585072014e-308", "0.1", "1e-400", "1e400",
        "-1e400", "12345678901234567890123", "0." + "0" * 400 + "1e401", "1" + "0" * 400 + "e-400",
        "6.9294956446009195e15", "3.0540412e5", "123456789012345678901234567890e-10", "9223372036854775807",
        "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1e18", "1e19", "100e-2", "10e-2",
        "922337203685477580.7e1", "9223372036854775807.0", "123456789012345678", "1234567890123456789",
    ],
)  # fmt: skip
def test_hard_numbers(text: str) -> None:
    check(Kind.FLOAT64, text)
    check(Kind.INT64, text)


@pytest.mark.parametrize(
    "text", ["1e99999999999999999999", "1e-99999999999999999999", "0e99999999999999999999"]
)
def test_an_absurd_exponent_is_decided_at_once(text: str) -> None:
    assert cells(Kind.INT64, [text]) == [Cell(0) if text[0] == "0" else Cell(None, refused=True)]


@pytest.mark.parametrize(
    "text", ["[3.4e38]", "[3.5e38]", "[1e39]", "[1, 2e308]", "[-1e400]", '"[2e308]"', "[1e-400]"]
)
def test_vectors_of_numbers_beyond_their_type(text: str) -> None:
    check(Kind.FLOATS, text)


def test_whole_numbers_stay_exact_where_doubles_do_not() -> None:
    numbers = [2**53 + 1, 2**63 - 1, -(2**63)]
    assert [cell.value for cell in cells(Kind.INT64, list(map(str, numbers)))] == numbers


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.TIMESTAMP_TZ, "2024-05-06T07:08:09.5+02:00", 1714972089500000),
        (Kind.TIMESTAMP_TZ, "2024-05-06 07:08:09", 1714979289000000),
        (Kind.TIMESTAMP, "2024-05-06T07:08:09+02:00", 1714979289000000),
        (Kind.TIMESTAMP, "2024-05-06", 1714953600000000),
        (Kind.TIMESTAMP_TZ, "2016-12-31T23:59:60.9Z", 1483228800000000),
        (Kind.TIMESTAMP_TZ, "1969-12-31T23:59:59.999999999Z", -1),
        (Kind.DATE, "2024-05-06T23:00:00-05:00", 19849),
        (Kind.DATE, "0001-01-01 BC", -719528),
        (Kind.DATE, "0000-01-01", -719528),
        (Kind.DATE, "-0001-12-31", -719529),
        (Kind.DATE, "12024-02-29", 3672207),
        (Kind.TIMESTAMP_TZ, "0044-03-15 12:00:00+00 BC", -63517780800000000),
        (Kind.TIME_TZ, "01:30:00+02:00", 84600000000),
        (Kind.TIME, "01:30:00+02:00", 5400000000),
        (Kind.TIME, "23:59:60", 0),
    ],
)
def test_dates_and_times_that_people_write(kind: Kind, text: str, value: int) -> None:
    check(kind, json.dumps(text))
    assert cells(kind, [json.dumps(text)]) == [Cell(value)]


SPELLINGS = [
    "2024-05-06", "2024-5-6", "2024/05/06", "2024/5/6", "2024.05.06", "2024.5.06", "2024 05 06", "2024 5 6",
    "20240506", "2024-May-06", "2024-MAY-6", "2024/may/6", "2024 May 06", "2024.mAy.6", "2024May06",
]  # fmt: skip


@pytest.mark.parametrize(
    ("time", "micros"),
    [
        ("", -25_509_500_000),
        (" 7:05", -9_500_000),
        ("T07:05 ", -9_500_000),
        ("T07:05:09,5", 0),
        (" 7:05:09.500000999", 0),
        (" 07:05:09.5 UTC", 0),
        (" 07:05:09.5GMT", 0),
        (" 07:05:09.5 z", 0),
        (" 09:05:09.5 +02", 0),
        (" 09:35:09.5+0230", 0),
        ("T04:35:09.5 -02:30", 0),
        (" 07:25:19.5+00:20:10", 0),
        (" 07:05:09.5 AD", 0),
    ],
)
def test_a_date_with_the_year_first_fits_in_many_spellings(time: str, micros: int) -> None:
    for date in SPELLINGS:
        text = json.dumps(date + time)
        check(Kind.TIMESTAMP_TZ, text)
        assert cells(Kind.TIMESTAMP_TZ, [text]) == [Cell(1714979109500000 + micros)], text
        assert cells(Kind.DATE, [text]) == [Cell(19849)], text


def test_all_months_have_names() -> None:
    names = ["jan", "Feb", "MAR", "apr", "may", "jun", "jul", "Aug", "sep", "oct", "nov", "Dec"]
    named, numbered = ([f'"2023 {month} 28"' for month in months] for months in (names, range(1, 13)))
    assert cells(Kind.DATE, named) == cells(Kind.DATE, numbered)
    assert len({cell.value for cell in cells(Kind.DATE, named)} - {None}) == 12


@pytest.mark.parametrize(
    "text",
    [
        "1714953600", '"1714953600"', '"24-05-06"', '"2024-02-30"', '"10:00"', '""',
        # Which is the month?
        '"05/06/2024"', '"06.05.2024"', '"6 May 2024"', '"May 6 2024"', '"24/05/06"', '"240506"',
        # Where does what begin?
        '"2024/05-06"', '"2024-0506"', '"202405-06"', '"2024506"', '"202456"', '"202405061"', '"2024May6"',
        '"12024/05/06"', '"120240506"', '"-20240506"', '"2024  05 06"', '"2024-05-0607:08"', '"2024-05"', '"2024 05"',
        # Other names
        '"2024-Sept-06"', '"2024-August-06"', '"2024-Mai-06"', '"2024_05_06"', '"2024-127"', '"2024-W19-1"',
        '"2024/05/06 07:08 CET"', '"2024-05-06 07:08 EST"', '"2024-05-06 07:08 Europe/Paris"',
        # No day of the calendar
        '"20240230"', '"2023-Feb-29"', '"2024/13/06"', '"2024.00.06"', '"2024 5 32"', '"20240506 24:00"',
        '"0000/05/06 AD"', '"0000.05.06 BC"', '"+2024-05-06 AD"',
    ],
)  # fmt: skip
def test_what_is_no_date_is_null_and_a_change(text: str) -> None:
    check(Kind.DATE, text)
    assert cells(Kind.DATE, [text]) == [Cell(None, refused=True)]
    assert cells(Kind.TIMESTAMP_TZ, [text]) == [Cell(None, refused=True)]
