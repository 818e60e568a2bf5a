"""The ledger against the rules by which the platform judges acknowledgements."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from destination_deeplake.ledger import Ledger

Key = tuple[str | None, str]


@dataclass(frozen=True)
class FakeScope:
    kind: str
    namespace: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class FakeState:
    scope: FakeScope
    number: int

    def acknowledged(self, record_count: int, rejected_count: int = 0) -> bytes:
        return f"{self.number} {record_count}{f' {rejected_count}' if rejected_count else ''}".encode()


A: Key = (None, "a")
B: Key = ("ns", "b")


def state(number: int, key: Key | None = None, kind: str = "GLOBAL") -> FakeState:
    return FakeState(FakeScope("STREAM", *key) if key else FakeScope(kind), number)


def test_a_stream_state_waits_for_the_records_of_its_stream_only() -> None:
    ledger = Ledger()
    ledger.arrived(state(1, A), {A: 5, B: 3})
    assert list(ledger.release()) == []
    ledger.published({A: 5})
    assert list(ledger.release()) == [b"1 5"]


def test_a_global_state_waits_for_the_records_of_all_streams() -> None:
    ledger = Ledger()
    ledger.arrived(state(1), {A: 5, B: 3})
    ledger.published({A: 5})
    assert list(ledger.release()) == []
    ledger.published({B: 3})
    assert list(ledger.release()) == [b"1 8"]


def test_a_state_without_records_goes_out_at_once() -> None:
    ledger = Ledger()
    ledger.arrived(state(1, B), {A: 4, B: 0})
    ledger.arrived(state(2, ("no", "such stream")), {A: 4, B: 0})
    assert list(ledger.release()) == [b"1 0", b"2 0"]


def test_a_stream_that_waits_does_not_hold_back_another_one() -> None:
    ledger = Ledger()
    ledger.arrived(state(1, A), {A: 1, B: 1})
    ledger.arrived(state(2, B), {A: 1, B: 1})
    ledger.arrived(state(3, A), {A: 1, B: 1})
    ledger.published({B: 1})
    assert list(ledger.release()) == [b"2 1"]
    ledger.published({A: 1})
    assert list(ledger.release()) == [b"1 1", b"3 0"]


def test_a_global_state_keeps_its_place_among_all() -> None:
    ledger = Ledger()
    ledger.arrived(state(1, A), {A: 1, B: 0})
    ledger.arrived(state(2), {A: 1, B: 0})
    ledger.arrived(state(3, B), {A: 1, B: 0})
    ledger.arrived(state(4, kind="LEGACY"), {A: 1, B: 0})
    assert list(ledger.release()) == []
    assert len(ledger) == 4
    ledger.published({A: 1})
    assert list(ledger.release()) == [b"1 1", b"2 0", b"3 0", b"4 0"]
    assert len(ledger) == 0


def test_each_record_is_counted_by_one_state() -> None:
    ledger = Ledger()
    for number, received in enumerate(({A: 2, B: 1}, {A: 5, B: 1}), 1):
        ledger.arrived(state(number, A), received)
    ledger.arrived(state(3), {A: 6, B: 4})
    ledger.arrived(state(4), {A: 6, B: 9})
    ledger.published({A: 6, B: 9})
    assert list(ledger.release()) == [b"1 2", b"2 3", b"3 5", b"4 5"]
    assert list(ledger.release()) == []
    assert len(ledger) == 0


def test_a_legacy_state_waits_for_all_and_counts_no_records_but_of_a_stream_that_it_names() -> None:
    """As the platform counts."""
    ledger = Ledger()
    ledger.arrived(state(1, kind="LEGACY"), {A: 2, B: 1}, {None: 1})
    ledger.arrived(FakeState(FakeScope("LEGACY", *B), 2), {A: 2, B: 3}, {B: 1})
    ledger.arrived(state(3, A), {A: 5, B: 3}, {B: 1})
    ledger.arrived(state(4), {A: 5, B: 4}, {B: 1, None: 1})
    ledger.published({B: 4})
    assert list(ledger.release()) == []
    ledger.published({A: 2})
    assert list(ledger.release()) == [b"1 0", b"2 3 1"]
    ledger.published({A: 5})
    assert list(ledger.release()) == [b"3 5", b"4 1 1"]


def test_refused_lines_are_counted_like_records() -> None:
    ledger = Ledger()
    ledger.arrived(state(1, A), {A: 2}, {A: 1, B: 4, None: 2})
    ledger.arrived(state(2, A), {A: 2}, {A: 1, B: 4, None: 2})
    ledger.arrived(state(3), {A: 2, B: 5}, {A: 3, B: 4, None: 3})
    ledger.arrived(state(4, B), {A: 2, B: 5}, {A: 3, B: 5, None: 3})
    ledger.arrived(state(5), {A: 2, B: 5}, {A: 3, B: 5, None: 4})
    ledger.published({A: 2, B: 5})
    # The stray lines count where all streams do.
    assert list(ledger.release()) == [b"1 2 1", b"2 0", b"3 5 9", b"4 0 1", b"5 0 1"]


def test_a_state_waits_for_the_dead_letters_before_it() -> None:
    ledger = Ledger()
    ledger.arrived(state(1, A), {A: 0}, {A: 2}, letters=2)
    assert list(ledger.release()) == []
    ledger.published({A: 0}, letters=1)
    assert list(ledger.release()) == []
    ledger.published({A: 0}, letters=2)
    ledger.arrived(state(2, B), {A: 0}, {A: 2}, letters=2)
    ledger.published({})
    assert list(ledger.release()) == [b"1 0 2", b"2 0"]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.sampled_from([A, B])),
        st.tuples(st.just("state"), st.sampled_from([A, B, None])),
        st.tuples(st.just("publish"), st.sampled_from([A, B])),
    ),
    max_size=40,
)


@given(steps)
def test_the_platform_accepts_every_run(run: list[tuple[str, Key | None]]) -> None:
    """Every state once, in order, with the platform's own counts, after its records are published."""
    ledger = Ledger()
    received: Counter[Key] = Counter()
    published: Counter[Key] = Counter()
    expected: list[bytes] = []
    scopes: dict[int, Key | None] = {}
    promised: dict[int, dict[Key, int]] = {}
    since: defaultdict[Key, int] = defaultdict(int)
    emitted: list[bytes] = []
    for number, (what, key) in enumerate([*run, ("publish", A), ("publish", B)]):
        if what == "record":
            assert key is not None
            received[key] += 1
            since[key] += 1
        elif what == "state":
            count = since.pop(key, 0) if key else sum(since.values())
            if key is None:
                since.clear()
            expected.append(f"{number} {count}".encode())
            scopes[number] = key
            promised[number] = {key: received[key]} if key else dict(received)
            ledger.arrived(state(number, key), received)
        else:
            assert key is not None
            published[key] = received[key]
            ledger.published(published)
        for line in ledger.release():
            assert all(published[k] >= n for k, n in promised[int(line.split()[0])].items())
            emitted.append(line)
        # What could go has gone: the first state of all that waits, and the first of each stream before a GLOBAL one.
        waiting = [number for number in scopes if number not in {int(line.split()[0]) for line in emitted}]
        for position, first in enumerate(waiting):
            before = [scopes[other] for other in waiting[:position]]
            if None not in before and scopes[first] not in before and (scopes[first] or not before):
                assert any(published[k] < n for k, n in promised[first].items())
    assert sorted(emitted) == sorted(expected)
    for stream in (A, B):
        order = [
            number
            for number in (int(line.split()[0]) for line in emitted)
            if scopes[number] in (stream, None)
        ]
        assert order == sorted(order)
