"""The nursery kills real processes, and knows what they had said."""

from __future__ import annotations

import signal

from unit_tests.proofs.kill import Ended, Nursery


def test_a_worker_comes_to_its_end_or_is_killed() -> None:
    """Every line that it said before counts; the next worker is not touched."""
    with Nursery("unit_tests.proofs.workers:count") as nursery:
        assert nursery.run([3, 0]) == Ended(0, ["number 0", "number 1", "number 2"])
        killed = nursery.run([1000, 0.01], kill_after=0.3)
        assert killed.was_killed
        assert killed.status == -signal.SIGKILL
        assert list(killed.lines) == [f"number {i}" for i in range(len(killed.lines))]
        assert 0 < len(killed.lines) < 1000
        assert nursery.run([1, 0], kill_after=60).lines == ["number 0"]


def test_a_worker_that_fails_says_so() -> None:
    """Its error is no kill."""
    with Nursery("unit_tests.proofs.workers:fail") as nursery:
        ended = nursery.run([])
    assert (ended.status, ended.was_killed, list(ended.lines)) == (1, False, ["so far"])


def test_what_a_worker_prints_does_not_get_between_the_answers() -> None:
    """Not even half a line, at which it was killed."""
    with Nursery("unit_tests.proofs.workers:mutter") as nursery:
        ended = nursery.run([], kill_after=0.3)
    assert (ended.was_killed, list(ended.lines)) == (True, ["ready"])
