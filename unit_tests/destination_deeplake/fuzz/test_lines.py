"""The reader takes any bytes: rows, rejected lines or an error, never a crash."""

import pytest

from unit_tests.destination_deeplake.fuzz import lines, messages


@pytest.mark.parametrize("name", lines.CALLS)
def test_hostile_lines(name: str) -> None:
    accepted = sum(lines.call(name, number) for number in range(300))
    assert 0 < accepted < 300


@pytest.mark.parametrize("name", messages.CALLS)
def test_hostile_messages(name: str) -> None:
    accepted = sum(messages.call(name, number) for number in range(100))
    assert 0 < accepted < 100
