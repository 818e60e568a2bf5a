"""How well the orders of the loader mix a sorted dataset, and what they hold in memory: a simulation on metadata.

A thousand classes, sorted, in 1.281 million samples of 110 kB, 110 to a chunk, in batches of 256: what ImageNet in
folders is. A true permutation puts 225.9 classes into a batch; Deep Lake 3.9.52, which reads in sequence and draws from
a buffer, 49.8 with 2 GB. The bar is 187 with 512 MB.

    python -m benchmarks.shuffle [samples]
"""

from __future__ import annotations

import sys
import time

import numpy as np

from benchmarks.sync import check
from lakebed.loaders.order import Integers, Mode, Order, Spans

CLASSES = 1000
SAMPLES = 1_281_167
NBYTES = 110_000
PER_CHUNK = 110
BATCH = 256
SPAN = 512 << 10
BAR = 187.0


def sorted_spans(samples: int, span: int = SPAN) -> Spans:
    """Return the spans of equal samples in chunks of 110, cut evenly into spans of about so many bytes."""
    counts, chunks = [], []
    for chunk, start in enumerate(range(0, samples, PER_CHUNK)):
        held = min(PER_CHUNK, samples - start)
        parts = max(1, round(held * NBYTES / span))
        counts.append(np.diff(np.arange(parts + 1) * held // parts))
        chunks.append(np.full(parts, chunk))
    count = np.concatenate(counts)
    return Spans(count, count * NBYTES, np.concatenate(chunks))


def quality(order: Integers) -> tuple[float, float, float, float]:
    """Return classes per batch (mean, fewest), correlation of position and sample, and P(same chunk next)."""
    labels = order * CLASSES // len(order)
    batches = labels[: len(labels) // BATCH * BATCH].reshape(-1, BATCH)
    ranked = np.sort(batches, axis=1)
    distinct = 1 + (np.diff(ranked, axis=1) != 0).sum(axis=1)
    chunks = order // PER_CHUNK
    correlation = np.corrcoef(np.arange(len(order)), order)[0, 1]
    same = (chunks[1:] == chunks[:-1]).mean()
    return float(distinct.mean()), float(distinct.min()), float(correlation), float(same)


def resident(order: Order, epoch: int = 0) -> float:
    """Return the most bytes that a reader at an even rate holds, that is never late and drops what it has used."""
    samples = order.positions(epoch, 0, len(order))
    spans = order.spans.of(samples)
    used, first = np.unique(spans, return_index=True)
    last = len(spans) - 1 - np.unique(spans[::-1], return_index=True)[1]
    sizes = order.spans.nbytes[used]
    total = sizes.sum()
    by_first = np.argsort(first)
    needed = np.cumsum(sizes[by_first]) - total * (first[by_first] / len(spans))
    lead = max(0.0, float(needed.max()))
    by_last = np.argsort(last)
    dropped = np.cumsum(sizes[by_last]) - sizes[by_last]  # before each is dropped
    read = np.minimum(total * (last[by_last] / len(spans)) + lead, total)
    return float((read - dropped).max())


def main() -> None:
    """Print a table and compare the default with the bar."""
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES
    print(f"{samples:,} samples of {NBYTES:,} bytes, sorted by {CLASSES:,} classes, batches of {BATCH}")
    print(
        f"{'order':32} {'classes/batch':>14} {'fewest':>7} "
        f"{'correlation':>12} {'same chunk':>11} {'MB held':>8} {'ns':>5}"
    )
    found = {}
    cases: list[tuple[Mode, int, int]] = [("exact", 512, SPAN), ("none", 512, SPAN), ("chunk", 512, SPAN)]
    cases += [("window", mega, SPAN) for mega in (64, 128, 256, 512, 1024, 2048)]
    cases += [("window", 512, 256 << 10), ("window", 512, 1 << 20), ("window", 512, PER_CHUNK * NBYTES)]
    for mode, window, span in cases:
        order = Order(sorted_spans(samples, span), mode=mode, seed=0, window=window << 20)
        start = time.process_time()
        positions = order.positions(0, 0, samples)
        each = (time.process_time() - start) / samples * 1e9
        classes, fewest, correlation, same = quality(positions)
        held = resident(order) / (1 << 20)
        name = mode if mode != "window" else f"window {window} MB, spans {span >> 10} kB"
        print(
            f"{name:32} {classes:14.1f} {fewest:7.0f} {correlation:12.4f} {same:11.4f} {held:8.0f} {each:5.0f}"
        )
        found[mode, window, span] = classes
    check("classes per batch, window of 512 MB", found["window", 512, SPAN], BAR)


if __name__ == "__main__":
    main()
