"""JSON numbers in random spellings, and numbers that meet in a double."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

digits = st.text("0123456789", min_size=1, max_size=24)
numbers = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    digits.map(lambda text: text.lstrip("0") or "0"),
    st.just("") | digits.map(".{}".format),
    st.just("") | st.builds("{}{}".format, st.sampled_from(["e", "E", "e+", "e-"]), st.integers(0, 400)),
)
"""JSON numbers of any size."""

_PLACES = ["9007199254740992", "-9007199254740992", "9223372036854775807", "18446744073709551616", "16777217"]
_CLOSE = [
    *(str(int(place) + step) for place in _PLACES for step in range(-2, 3)),
    *(
        "0.1",
        "0.10000000000000001",
        "0.1000000000000000055511151231257827021181583404541015625",
        "1e-400",
        "-1e-400",
    ),
    *(
        "1e400",
        "1.00000000000000000001e400",
        "-1e400",
        "1e23",
        "99999999999999991611392",
        "9.999999999999999e22",
    ),
    *("0", "1", "255", "256", "-1", "1.5", "1.25", "1.2500000000000000000001", "5e-324", "4e-324", "1e22"),
]

nearby = st.sampled_from(_CLOSE)
"""Numbers of which many have the same nearest double."""


def respelled(text: str, way: int) -> str:
    """Return the same number in another spelling that JSON has."""
    number = Fraction(text)
    mantissa, _, exponent = text.lower().partition("e")
    power = int(exponent or 0)
    ways = [
        text,
        f"{mantissa}{'0' if '.' in mantissa else '.0'}{'e' + exponent if exponent else ''}",
        f"{mantissa}E{power:+03d}",
        _shifted(mantissa, power),
    ]
    found = ways[way % len(ways)]
    assert Fraction(found) == number
    return found


def _shifted(mantissa: str, power: int) -> str:
    """Return the number as an integer and an exponent."""
    whole, _, fraction = mantissa.partition(".")
    sign = "-" if whole.startswith("-") else ""
    digits = (whole.lstrip("-") + fraction).lstrip("0") or "0"
    return f"{sign}{digits}e{power - len(fraction)}"
