"""When to ask a second time, by the times that a test tells."""

from __future__ import annotations

from lakebed.reading.remote.ranges import Hedging


def test_what_takes_twice_as_long_as_nearly_all_is_asked_for_again() -> None:
    policy = Hedging()
    for number in range(100):
        policy.answered(1.0 + number / 100)
    assert not policy.hedge(3.8)
    assert policy.hedge(4.0)
    assert policy.hedged == 1


def test_nothing_is_until_it_is_known_what_is_usual() -> None:
    policy = Hedging()
    for _ in range(31):
        policy.answered(1.0)
    assert not policy.hedge(1000.0)
    policy.answered(1.0)
    assert policy.hedge(2.1)


def test_few_are() -> None:
    """Of a store that is slow as a whole, one in thirty."""
    policy = Hedging()
    for number in range(600):
        policy.answered(1.0)
        if number > 100:
            policy.hedge(10.0)
    assert policy.hedged == 20


def test_what_is_slow_for_long_is_usual() -> None:
    policy = Hedging()
    for _ in range(300):
        policy.answered(1.0)
    for _ in range(300):
        policy.answered(5.0)
    assert not policy.hedge(9.9)
    assert policy.hedge(10.1)


def test_a_tenth_of_a_second_is_not_long() -> None:
    policy = Hedging()
    for _ in range(100):
        policy.answered(0.001)
    assert not policy.hedge(0.09)
