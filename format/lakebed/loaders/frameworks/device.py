"""Batches of PyTorch on a device: a separate CUDA stream copies each batch while the previous batch is used."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lakebed.reading.buffers import BufferPool
from lakebed.runtime.failures import Outcome, outcome


class PinnedPool(BufferPool):
    """Pinned memory for batches: a device copies from it without the processor's help."""

    def made(self, size: int) -> NDArray[np.uint8]:
        found: NDArray[np.uint8] = torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()
        return found


def moved(value: Any, device: torch.device) -> Any:
    """Return a batch with its tensors on a device; other values are unchanged."""
    return _mapped(value, lambda tensor: tensor.to(device, non_blocking=True))


def _mapped(value: Any, call: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return call(value)
    if isinstance(value, Mapping):
        return type(value)((name, _mapped(part, call)) for name, part in value.items())  # type: ignore[call-arg]
    if isinstance(value, list | tuple):
        return type(value)(_mapped(part, call) for part in value)
    return value


class DeviceLoader:
    """A loader whose batches are on a device, copied one batch ahead of the consumer.

    On CUDA the copies run on a side stream. The consumer's stream waits for them, so the processor need not; source
    buffers are reused only after their copy is done. For other devices a thread copies the batches.

    Parameters
    ----------
    loader
        Yields batches of tensors.
    device
        Device to copy to.
    """

    def __init__(self, loader: Iterable[Any], device: torch.device | str) -> None:
        self.loader = loader
        self.device = torch.device(device)
        self._state: Mapping[str, Any] | None = None

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def state_dict(self) -> Mapping[str, Any]:
        """Return the position of the consumer; batches that were only copied ahead do not count."""
        if self._state is not None:
            return self._state
        state: Mapping[str, Any] = self.loader.state_dict()  # type: ignore[attr-defined]
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at the position of another loader."""
        self._state = None
        self.loader.load_state_dict(state)  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # while the object is unpickled, this attribute is not set yet
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[Any]:
        ready: queue.Queue[Any] = queue.Queue(maxsize=1)
        ended = threading.Event()
        thread = threading.Thread(
            target=lambda: ready.put(outcome(self._copy, ready, ended)), name="lakebed-device", daemon=True
        )
        thread.start()
        try:
            while not isinstance(found := ready.get(), Outcome):
                batch, event, self._state = found
                if event is not None:
                    stream = torch.cuda.current_stream(self.device)
                    stream.wait_event(event)
                    _mapped(batch, lambda tensor: tensor.record_stream(stream))  # noqa: B023 - called at once
                yield batch
                del batch, found
            found.result()
            self._state = None
        finally:
            ended.set()
            while thread.is_alive():
                try:
                    ready.get(timeout=0.01)
                except queue.Empty:
                    continue
            thread.join()

    def _copy(self, ready: queue.Queue[Any], ended: threading.Event) -> None:
        """Copy batches; keep each source alive until its copy is done."""
        held: deque[tuple[Any, Any]] = deque()
        stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
        for batch in self.loader:
            if ended.is_set():
                break
            event = None
            with torch.cuda.stream(stream):
                copied = moved(batch, self.device)
            if stream is not None:
                event = stream.record_event()
                held.append((batch, event))
            while held and held[0][1].query():
                held.popleft()
            state = self.loader.state_dict() if hasattr(self.loader, "state_dict") else None
            ready.put((copied, event, state))
            del batch, copied
        for _, event in held:
            event.synchronize()
