"""Strategies for JSON values as sources write them: every number, date and string in many spellings."""

import json
import random

from hypothesis import strategies as st

digits = st.text("0123456789", min_size=1, max_size=24)
whole = st.builds(lambda n: str(int(n)), digits)
exponents = st.one_of(
    st.just(""),
    st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 400)),
)
numbers = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    whole,
    st.one_of(st.just(""), st.builds(".{}".format, digits)),
    exponents,
)
loose_numbers = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "+", "-", "0", "00", " "]),
    numbers,
    st.sampled_from(["", ".", " ", "x", "."]),
)
number_words = st.sampled_from(
    ["NaN", "Infinity", "-Infinity", "+Infinity", "nan", "inf", "", ".", "-", "1_0", "0x10", ".5", "5."]
)

years = st.sampled_from(
    [
        "2024",
        "1970",
        "0001",
        "0000",
        "9999",
        "12024",
        "+2023",
        "-0044",
        "1900",
        "2000",
        "999999999",
        "294247",
        "-290308",
        "5881580",
        "24",
    ]
)
months = st.sampled_from(["01", "02", "12", "2", "13", "00", "06"])
days = st.sampled_from(["01", "28", "29", "30", "31", "5", "00", "32"])
month_names = st.sampled_from(
    ["Jan", "feb", "MAR", "aPr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Sept", "Mai", "Ma"]
)
dates = st.one_of(
    st.builds("{}{}{}{}{}".format, years, st.sampled_from("---/"), months, st.sampled_from("---."), days),
    st.builds(
        "{0}{1}{2}{1}{3}".format,
        years,
        st.sampled_from(["-", "/", ".", " ", "", "", "_", "  "]),
        st.one_of(months, month_names),
        days,
    ),
)
times = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["00", "7", "23", "24", "10"]),
    st.sampled_from([":00", ":59", ":60", ":5", ""]),
    st.sampled_from(["", ":00", ":59", ":60", ":61", ":1"]),
    st.sampled_from(["", ".1", ".123456", ".1234567899", ",5", ".", ".000001"]),
)
offsets = st.sampled_from(
    [
        "",
        "",
        "Z",
        "z",
        " Z",
        "+02",
        "-0530",
        "+05:30",
        " +02:00",
        "+24:00",
        "-00:19:32",
        "+1",
        " UTC",
        "GMT",
        " CET",
        "EST",
        "+05:60",
        "-2359",
    ]
)
moments = st.one_of(
    dates,
    times,
    st.builds("{}{}".format, times, offsets),
    st.builds(
        "{}{}{}{}{}".format,
        dates,
        st.sampled_from("TTt "),
        times,
        offsets,
        st.sampled_from(["", "", " BC", " AD", "x", " "]),
    ),
    st.builds(
        "{}{}".format, dates, st.sampled_from([" BC", "BC", " B", " BCE", " AD", "AD", " A", "T", " "])
    ),
    st.datetimes().map(str),
    st.times().map(str),
)
blanks = st.sampled_from(["", "", "", " ", "\n", "\r\n", "\t"])
base64s = st.builds(
    "{}{}{}{}{}{}".format,
    st.sampled_from(
        ["", "", "", "data:;base64,", " DATA:image/png;Base64,", "data:text/plain,", "data:;base64"]
    ),
    st.text("ABCDZabz019+/-_", max_size=9),
    blanks,
    st.text("ABCDZabz019+/-_ \n", max_size=9),
    st.sampled_from(["", "", "=", "==", "= =", "===", "A", "=A", "é"]),
    blanks,
)
arrays_of_numbers = st.recursive(
    st.one_of(
        numbers, numbers, st.sampled_from(["1", "0.5", "-2e3", "1e39", "null", "[]", '"1"', "01", "1."])
    ),
    lambda inner: st.builds(
        "[{}{}{}]".format,
        blanks,
        st.lists(inner, max_size=4).map(" ,".join),
        st.sampled_from(["", "", " ", ",", "]"]),
    ),
    max_leaves=8,
)
words = st.one_of(
    number_words, st.sampled_from(["true", "False", "TRUE", "\u017ftrue", "yes", "1"]), st.text(max_size=20)
)


def escaped(text: str, seed: int) -> str:
    """Spell a string in one of the many ways that JSON allows."""
    choose = random.Random(seed)

    def spell(letter: str) -> str:
        if choose.random() < 0.5 or len(letter.encode("utf-16", "surrogatepass")) > 4:
            return json.dumps(letter, ensure_ascii=choose.random() < 0.5 or "\ud800" <= letter <= "\udfff")[
                1:-1
            ]
        return f"\\u{ord(letter):04{choose.choice('xX')}}"

    return '"' + "".join(map(spell, text)) + '"'


strings = st.one_of(
    st.one_of(numbers, loose_numbers, moments, words, base64s, arrays_of_numbers).map(
        lambda text: json.dumps(text, ensure_ascii=False)
    ),
    st.builds(
        escaped,
        st.one_of(
            loose_numbers,
            moments,
            base64s,
            arrays_of_numbers,
            st.text(st.characters(exclude_categories=()), max_size=40),
        ),
        st.integers(0, 9),
    ),
)
nested = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
).map(json.dumps)
number_lists = st.lists(numbers, max_size=5).map(lambda texts: "[" + ", ".join(texts) + "]")


def _spelled(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Arrays and objects in any spelling, with space everywhere and duplicate keys."""
    space = st.sampled_from(["", "", "", " ", "\t", "\r "])
    padded = st.builds("{}{}{}".format, space, part, space)
    members = st.builds("{}{}{}:{}".format, space, strings, space, padded)
    return st.one_of(
        st.lists(padded, max_size=3).map(lambda parts: f"[{','.join(parts)}]"),
        st.lists(members, max_size=3).map(lambda parts: f"{{{','.join(parts)}}}"),
        space.map("[{}]".format),
    )


containers = _spelled(st.recursive(st.one_of(numbers, strings, st.just("null")), _spelled, max_leaves=4))
values = st.one_of(
    numbers,
    containers,
    strings,
    nested,
    number_lists,
    st.sampled_from(["true", "false", "null", "0", "1", "1.0", "-0", "-0.0", "1e0"]),
)

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=True), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
