"""The version prefix of binary files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.documents.indexes import version_prefix
from lakebed.errors import FormatError


def test_golden_bytes() -> None:
    """format.md 15.1."""
    assert bytes.fromhex("06 33 2e 39 2e 35 32") == version_prefix.PREFIX
    assert version_prefix.split(version_prefix.PREFIX + b"rest", "x") == ("3.9.52", 7)
    assert len(version_prefix.FORMAT_VERSION) <= 10


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\x06", b"\x063.9.5", b"\x02\xff\xff", b"\xff" + b"1" * 255, b"\x01\n"]
)
def test_refuses_what_is_no_version(data: bytes) -> None:
    """Too short, empty, too long, or no text."""
    with pytest.raises(FormatError, match="thing"):
        version_prefix.split(data, "thing")


def test_compares_by_number() -> None:
    """2.10 is newer than 2.7; what is no number is refused."""
    assert version_prefix.numbers("2.10.0", "x") > version_prefix.numbers("2.7.6", "x")
    for version in ("", "abc", "3.9.52+ext", "3..1", "1.²", "9" * 5000):
        with pytest.raises(FormatError):
            version_prefix.numbers(version, "x")


@given(st.binary(max_size=80))
def test_random_bytes(data: bytes) -> None:
    """Nothing but FormatError comes out."""
    try:
        version, end = version_prefix.split(data, "x")
    except FormatError:
        return
    assert data[:end] == bytes([len(version)]) + version.encode()
