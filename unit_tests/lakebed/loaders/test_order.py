"""The order of samples: a permutation for every mode, the same in whatever parts it is asked for, well mixed."""

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import InvalidInputError
from lakebed.loaders.order import Order, Shares, Spans, footprint

MODES = ("none", "chunk", "window", "exact")


@st.composite
def span_tables(draw):
    """Span tables of all kinds: empty ones, spans without samples, samples without bytes, a large one among small."""
    counts = draw(st.lists(st.integers(0, 9), max_size=40))
    sizes = draw(st.lists(st.sampled_from([0, 1, 100, 5000]), min_size=len(counts), max_size=len(counts)))
    turns = draw(st.lists(st.booleans(), min_size=len(counts), max_size=len(counts)))
    return spans_of(np.array(counts, dtype=np.int64), sizes, np.cumsum(turns))


def spans_of(counts, sizes, chunks):
    return Spans(
        np.asarray(counts, dtype=np.int64),
        np.asarray(sizes, dtype=np.int64),
        np.asarray(chunks, dtype=np.int64),
    )


orders = st.builds(
    lambda spans, mode, seed, window, lanes: Order(spans, mode=mode, seed=seed, window=window, lanes=lanes),
    span_tables(),
    st.sampled_from(MODES),
    st.integers(-5, 2**65),
    st.integers(1, 20_000),
    st.integers(1, 9) | st.none(),
)


def even(spans=600, count=5, size=10_000, per_chunk=4):
    return spans_of(np.full(spans, count), np.full(spans, count * size), np.arange(spans) // per_chunk)


@given(order=orders, epoch=st.integers(0, 3))
def test_every_sample_comes_once(order, epoch):
    n = len(order)
    assert sorted(order.positions(epoch, 0, n).tolist()) == list(range(n))


@given(order=orders, cuts=st.lists(st.integers(0, 400), max_size=6))
def test_the_order_is_the_same_in_whatever_parts_it_is_asked_for(order, cuts):
    n = len(order)
    whole = order.positions(1, 0, n)
    ends = [0, *sorted(min(cut, n) for cut in cuts), n]
    parts = [order.positions(1, start, stop) for start, stop in itertools.pairwise(ends)]
    assert np.concatenate(parts).tolist() == whole.tolist()
    backwards = np.arange(n, dtype=np.int64)[::-1].copy()
    assert pickle.loads(pickle.dumps(order)).samples(1, backwards).tolist() == whole[::-1].tolist()


@given(order=orders)
def test_epochs_that_come_in_turns_do_not_disturb_each_other(order):
    n = len(order)
    first = [order.positions(epoch, 0, n).tolist() for epoch in range(4)]
    assert [order.positions(epoch, 0, n).tolist() for epoch in (3, 1, 0, 2)] == [
        first[e] for e in (3, 1, 0, 2)
    ]


@given(order=orders, world=st.integers(1, 8))
def test_blocks_tell_what_each_process_uses(order, world):
    n = len(order)
    uses = np.zeros(len(order.spans), dtype=np.int64)
    seen = np.zeros(n, dtype=np.int64)
    numbers = order.block_of(0, np.arange(n))
    for number in range(order.blocks(0)):
        positions = np.array(order.block(0, number).positions, dtype=np.int64)
        assert (numbers[positions] == number).all()
        seen[positions] += 1
        for rank in range(world):
            block = order.block(0, number, rank=rank, world=world)
            own = positions[positions % world == rank]
            used = order.spans.of(order.samples(0, own))
            assert dict(zip(block.spans.tolist(), block.uses.tolist(), strict=True)) == {
                span: (used == span).sum() for span in used
            }
            assert list(dict.fromkeys(used.tolist())) == block.spans.tolist()
            np.add.at(uses, block.spans, block.uses)
    assert (seen == 1).all()
    assert uses.tolist() == order.spans.count.tolist()


def test_recorded_orders():
    spans = spans_of([3, 1, 2, 2], [30, 10, 20, 20], [0, 0, 1, 2])

    def whole(epoch=0, **kwargs):
        return Order(spans, seed=1, **kwargs).positions(epoch, 0, 8).tolist()

    assert whole(mode="none") == list(range(8))
    assert whole(mode="chunk") == [6, 7, 4, 5, 0, 1, 2, 3]
    assert whole(mode="exact") == [2, 1, 7, 5, 4, 0, 3, 6]
    assert whole(mode="exact", epoch=1) == [2, 4, 5, 1, 6, 0, 3, 7]
    assert whole(mode="window", window=40, lanes=2) == [5, 1, 4, 0, 7, 2, 6, 3]
    large = Order(even(5000), mode="window", seed=2**64 + 9, window=1 << 20)
    assert large.positions(3, 1000, 1006).tolist() == [8160, 17022, 4262, 1502, 6282, 9713]


def test_modes_keep_together_what_they_promise():
    spans = even(64, 5, per_chunk=4)
    chunks = Order(spans, mode="chunk", seed=3).positions(0, 0, 320).reshape(16, 20)
    assert (np.diff(chunks, axis=1) == 1).all()
    assert (chunks[:, 0] % 20 == 0).all()
    assert chunks[:, 0].tolist() != sorted(chunks[:, 0])
    window = Order(spans, mode="window", seed=3, window=500_000)
    assert window.blocks(0) > 3
    for number in range(window.blocks(0)):
        block = window.block(0, number)
        assert (block.uses == 5).all(), "a block of one lane is whole spans"


def test_blocks_of_an_epoch_are_equally_full_and_fit_the_window():
    rng = np.random.default_rng(5)
    count = rng.integers(1, 12, 5000)
    sizes = count * rng.integers(1_000, 100_000, 5000)
    spans = spans_of(count, sizes, np.arange(5000) // 7)
    for lanes in (1, 8):
        order = Order(spans, mode="window", seed=1, window=32 << 20, lanes=lanes)
        blocks = [order.block(2, number) for number in range(order.blocks(2))]
        full = np.array([(sizes[block.spans] / count[block.spans] * block.uses).sum() for block in blocks])
        inner = full.reshape(lanes, -1)[:, 1:-1]  # the first and the last are smaller
        assert inner.max() - inner.min() <= 2 * sizes.max()
        assert full.max() == inner.max()
        assert (
            full.max() * lanes
            <= (32 << 20) / footprint((sizes * count).sum() / sizes.sum()) + lanes * sizes.max()
        )
        assert len(blocks) % lanes == 0
    # One lane: only spans at its end, none in two blocks.
    counted = np.bincount(np.concatenate([block.spans for block in blocks]), minlength=5000)
    assert (counted > 1).sum() <= 7


@pytest.mark.parametrize(("count", "size"), [(2, 200_000), (5, 100_000), (50, 10_000), (1000, 500)])
def test_a_reader_at_an_even_rate_is_never_late_and_holds_the_window_at_most(count, size):
    spans = even(6000, count, size)
    window = 48 << 20
    order = Order(spans, mode="window", seed=1, window=window)
    numbers = spans.of(order.positions(0, 0, len(order)))
    place = np.arange(len(numbers))
    first, last = np.full(6000, len(numbers)), np.zeros(6000, dtype=np.int64)
    np.minimum.at(first, numbers, place)
    np.maximum.at(last, numbers, place)
    each = count * size
    needed = np.searchsorted(np.sort(first), place, side="right") * each
    dropped = np.searchsorted(np.sort(last), place) * each
    read = place * size
    lead = (needed - read).max()
    assert (np.minimum(read + lead, len(numbers) * size) - dropped).max() <= 1.05 * window
    assert len(order) * size > 5 * window


@pytest.mark.parametrize(
    ("megabytes", "window", "expected"),
    [
        (63, 512, [63]),
        (64, 512, [4, 8, *[64 * 10 / 16 / 3] * 3, 8, 4]),
        (240, 512, [15, 30, 50, 50, 50, 30, 15]),
        (240, 60, [15, 30, *[37.5] * 4, 30, 15]),
    ],
)
def test_the_first_and_the_last_blocks_of_an_epoch_are_small(megabytes, window, expected):
    order = Order(even(megabytes * 4, 8, 1 << 15), mode="window", seed=2, window=window << 20, lanes=1)
    found = [order.block(1, number).uses.sum() / 32 for number in range(order.blocks(1))]
    assert found == pytest.approx(expected, abs=1.01 / 4)
    assert sorted(order.positions(1, 0, len(order))) == list(range(len(order)))


def test_spans_of_one_sample_need_no_window():
    order = Order(even(5000, 1), mode="window", seed=0, window=1)
    assert order.blocks(0) == order.lanes == 8


def test_lanes_give_each_process_spans_of_its_own():
    spans = even(6000, 6)
    order = Order(spans, mode="window", seed=0, window=10 << 20)
    read = np.zeros((8, 6000), dtype=bool)
    for rank in range(8):
        read[rank, spans.of(order.samples(0, np.arange(rank, len(order), 8)))] = True
    assert read.sum() <= 6000 + 7
    assert [Order(even(n), mode="window", seed=0).lanes for n in (4095, 4096, 999_999, 1_000_000)] == [
        1,
        8,
        8,
        64,
    ]


def test_a_sorted_dataset_is_mixed():
    """The program `benchmarks.shuffle` at a tenth of its size: batches of 256 from 100 sorted classes."""
    samples, size = 128_000, 110_000
    count = np.tile([4, 5, 5, 4, 5], 128_000 // 23)
    spans = spans_of(count, count * size, np.arange(len(count)) // 24)
    order = Order(spans, mode="window", seed=0, window=512 << 20)
    positions = order.positions(0, 0, len(order))
    spans_per_batch = [
        len(set(spans.of(positions[i : i + 256]))) for i in range(0, len(positions) - 256, 256)
    ]
    assert np.mean(spans_per_batch) > 220, "of 256 samples that many come from different places"
    assert abs(np.corrcoef(np.arange(len(order)), positions)[0, 1]) < 0.05
    chunk = spans.chunk[spans.of(positions)]
    assert (np.diff(chunk) == 0).mean() < 0.005
    assert samples * 0.95 < len(order) <= samples


def test_positions_that_are_not_there():
    for mode in MODES:
        order = Order(even(3), mode=mode, seed=0)
        for start, stop in ((-1, 2), (0, 16), (15, 16)):
            with pytest.raises(IndexError, match="0 to 14"):
                order.positions(0, start, stop)
        assert order.positions(0, 15, 15).tolist() == []


def test_settings_that_make_no_order():
    for wrong in ({"mode": "random"}, {"window": 0}, {"lanes": 0}):
        with pytest.raises(InvalidInputError):
            Order(even(3), **{"mode": "window", "seed": 0, **wrong})


# -- shares ----------------------------------------------------------------------------------------------------------


@given(
    samples=st.integers(0, 60),
    batch=st.integers(1, 20),
    world=st.integers(1, 8),
    tail=st.sampled_from(["pad", "drop"]),
    drop_last=st.booleans(),
)
def test_processes_share_each_batch_and_take_equally_many_steps(samples, batch, world, tail, drop_last):
    batch = max(batch, world)
    shares = [Shares(samples, batch, rank, world, tail, drop_last) for rank in range(world)]
    steps = [[share.step(n) for n in range(len(share))] for share in shares]
    assert {len(each) for each in steps} == {len(shares[0])}
    share = Shares(samples, batch, drop_last=drop_last)
    alone = [p for n in range(len(share)) for p in share.step(n)[0]]
    dealt = []
    for number in range(len(shares[0])):
        parts = [each[number] for each in steps]
        assert all(len(own) for own, _ in parts)
        assert max(len(own) for own, _ in parts) - min(len(own) for own, _ in parts) <= 1
        if not batch % world:
            assert len({len(own) for own, _ in parts}) == 1
        real = np.concatenate([own[mask] for own, mask in parts])
        again = np.concatenate([own[~mask] for own, mask in parts])
        assert not len(again) or (tail == "pad" and number == len(shares[0]) - 1)
        assert sorted(again % samples if len(again) else []) == sorted(p % samples for p in range(len(again)))
        assert sorted(real) == alone[number * batch : number * batch + len(real)]
        dealt += sorted(real)
    if tail == "pad":
        assert dealt == alone
    assert len(alone) - len(dealt) < max(world, 1) or tail == "drop"


@given(samples=st.integers(0, 60), batch=st.integers(1, 20), world=st.integers(1, 8))
def test_workers_of_one_process_leave_nothing_out_and_repeat_nothing(samples, batch, world):
    shares = [Shares(samples, max(batch, world), rank, world, "keep") for rank in range(world)]
    steps = [[share.step(n) for n in range(len(share))] for share in shares]
    assert all(len(own) and real.all() for each in steps for own, real in each)
    assert sorted(p for each in steps for own, _ in each for p in own) == list(range(samples))
    assert [share.own for share in shares] == [sum(len(own) for own, _ in each) for each in steps]


def test_shares_that_cannot_be():
    for wrong in ({"rank": 2}, {"rank": -1}, {"world": 0}, {"batch": 1}, {"tail": "cut"}):
        with pytest.raises(InvalidInputError):
            Shares(**{"samples": 10, "batch": 4, "rank": 0, "world": 2, **wrong})
    with pytest.raises(IndexError):
        Shares(10, 4).step(3)


@pytest.mark.parametrize("mode", ["window", "exact"])
def test_the_uses_of_a_block_are_those_of_its_samples(mode: Any) -> None:
    """They are counted without looking at each sample, also of spans that two blocks share."""
    chance = np.random.default_rng(5)
    for _ in range(60):
        spans = int(chance.integers(1, 60))
        sizes = chance.integers(1, 9, spans), chance.integers(1, 1 << 26, spans), np.arange(spans)
        window, lanes = 1 << int(chance.integers(20, 29)), int(chance.integers(1, 4))
        order = Order(Spans(*sizes), mode=mode, seed=3, window=window, lanes=lanes)
        for number in range(order.blocks(1)):
            block, (found, uses) = order.block(1, number), order.uses(1, number)
            assert order.positions_of(1, number) == block.positions
            wanted = dict(zip(block.spans.tolist(), block.uses.tolist(), strict=True))
            assert dict(zip(found.tolist(), uses.tolist(), strict=True)) == wanted
