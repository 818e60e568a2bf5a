"""Failures of a block or a call."""

import pytest

from lakebed.runtime.failures import OnFailure, outcome


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_any_failure_undoes_what_was_begun_and_continues(error: BaseException) -> None:
    """An interrupt included."""
    undone: list[str] = []
    with pytest.raises(type(error)) as caught, OnFailure(undone.append, "first"):
        raise error

    assert caught.value is error
    assert undone == ["first"]


def test_nothing_is_undone_after_a_block_that_succeeds_or_returns() -> None:
    """Also if it is left early."""
    undone: list[int] = []

    def leave() -> int:
        with OnFailure(undone.append, 1):
            return 7

    assert leave() == 7
    assert undone == []


def test_an_error_of_undoing_shows_the_one_that_led_to_it() -> None:
    """As after an ``except`` clause."""
    with pytest.raises(ZeroDivisionError) as caught, OnFailure(divmod, 1, 0):
        raise KeyError("first")

    assert isinstance(caught.value.__context__, KeyError)


def test_an_outcome_returns_or_raises_what_the_call_did() -> None:
    """None is a result like any other."""
    error = KeyboardInterrupt()

    def fail() -> None:
        raise error

    assert outcome(divmod, 7, 2) == ((3, 1), None)
    assert outcome([].clear).result() is None
    with pytest.raises(KeyboardInterrupt) as caught:
        outcome(fail).result()
    assert caught.value is error


def test_errors_of_other_kinds_are_raised_at_once() -> None:
    """So that an interrupt is not taken for a failure of a user's function."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outcome(interrupted, kind=Exception)
    assert isinstance(outcome(int, "x", kind=Exception).error, ValueError)
