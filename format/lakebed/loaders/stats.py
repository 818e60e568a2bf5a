"""Statistics of a loader: its work, and its bottleneck."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakebed.loaders.portions import Portion
from lakebed.reading.fetch import ChunkSource
from lakebed.storage.stores.traffic import Counts

_MOST_TOLD = 100
"""Maximum number of failed samples whose location is kept."""


@dataclass(slots=True)
class Stats:
    """Counts and seconds of one loader; threads add to them."""

    batches: int = 0
    samples: int = 0
    bytes_read: float = 0.0
    bytes_wanted: float = 0.0
    requests: float = 0
    read_seconds: float = 0.0
    decode_seconds: float = 0.0
    transform_seconds: float = 0.0
    start_seconds: float = 0.0
    loader_wait_seconds: float = 0.0
    consumer_seconds: float = 0.0
    held_bytes: int = 0
    peak_bytes: int = 0
    errors: int = 0
    last_error: str | None = None
    failures: list[Mapping[str, Any]] = field(default_factory=list)
    threads: int = 0
    hedged: int = 0
    _asked: Counts = field(default_factory=Counts)
    _hits: int = 0
    _watched: tuple[ChunkSource, Counts, int] | None = None
    _mutex: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, **values: float) -> None:
        """Add to some of the counts."""
        with self._mutex:
            for name, value in values.items():
                setattr(self, name, getattr(self, name) + value)
            self.peak_bytes = max(self.peak_bytes, self.held_bytes)

    def was_read(self, seconds: float, portions: Sequence[Portion], share: float) -> None:
        """Add the read of a span; `share` is the fraction of its samples that is used."""
        nbytes = requests = 0
        for portion in portions:
            nbytes += portion.nbytes
            requests += portion.requests
        with self._mutex:
            self.read_seconds += seconds
            self.bytes_read += nbytes
            self.bytes_wanted += nbytes * share
            self.requests += requests

    def watch(self, source: ChunkSource | None) -> None:
        """Begin to count the requests to a store; None stops counting."""
        with self._mutex:
            self._asked, self._hits = self._reads()
            traffic = None if source is None else source.traffic
            self._watched = (
                None if source is None or traffic is None else (source, traffic.counts(), source.hits)
            )

    def _reads(self) -> tuple[Counts, int]:
        """Return the requests to the store, and the hits of its cache."""
        asked, watched = self._asked, self._watched
        traffic = None if watched is None else watched[0].traffic
        if watched is None or traffic is None:
            return asked, self._hits
        source, before, hits = watched
        return asked.plus(traffic.counts().since(before)), self._hits + source.hits - hits

    def failed(self, error: BaseException, where: Callable[[], Mapping[str, Any]] = dict) -> None:
        """Count a failed sample, and keep the location of the first ones."""
        text = f"{type(error).__name__}: {error}"
        told = {**where(), "error": text} if self.errors < _MOST_TOLD else None
        with self._mutex:
            self.errors += 1
            self.last_error = text
            if told is not None and len(self.failures) < _MOST_TOLD:
                self.failures.append(told)

    @property
    def bottleneck(self) -> str:
        """Slowest part, in one word: ``consumer``, ``storage``, ``transform`` or ``decoding``."""
        if self.loader_wait_seconds < 0.2 * (self.loader_wait_seconds + self.consumer_seconds):
            return "consumer"
        work = self.decode_seconds + self.transform_seconds
        idle = max(0.0, self.loader_wait_seconds * max(1, self.threads) - work)
        if idle > work:
            return "storage"
        return "transform" if self.transform_seconds > self.decode_seconds else "decoding"

    def report(self) -> Mapping[str, Any]:
        """Return all figures by name."""
        with self._mutex:
            asked, hits = self._reads()
            failures = list(self.failures)
        if not asked.requests:  # for local files, each span counts as one request
            asked = Counts(int(self.requests), nbytes=int(self.bytes_read))
        seconds = self.start_seconds + self.loader_wait_seconds + self.consumer_seconds
        return {
            "batches": self.batches,
            "samples": self.samples,
            "samples_per_second": self.samples / seconds if seconds else 0.0,
            "MB_per_second": self.bytes_read / 1e6 / seconds if seconds else 0.0,
            "requests": asked.requests,
            "retried": asked.retried,
            "hedged": self.hedged,
            "cache_hits": hits,
            "bytes_read": asked.nbytes,
            "amplification": asked.nbytes / self.bytes_wanted if self.bytes_wanted else 1.0,
            "wait_io": self.read_seconds,
            "decode": self.decode_seconds,
            "transform": self.transform_seconds,
            "start": self.start_seconds,
            "wait_loader": self.loader_wait_seconds,
            "wait_consumer": self.consumer_seconds,
            "held": self.held_bytes,
            "peak_bytes": self.peak_bytes,
            "errors": self.errors,
            "last_error": self.last_error,
            "failures": failures,
            "bottleneck": self.bottleneck,
        }
