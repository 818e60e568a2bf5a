"""Where vectors are computed: in NumPy, or in PyTorch or JAX on a device.

A space has the functions that :mod:`lakebed.query.functions.vectors` needs, by the same names; arrays go in by
`given` and come back by `taken`. PyTorch and JAX are imported by whoever asks for them, and by nothing else.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakebed.errors import InvalidInputError, ModuleNotInstalledException


@dataclass(frozen=True, slots=True)
class Space:
    """An array library on a device.

    Attributes
    ----------
    functions
        Its namespace: ``matmul``, ``einsum``, ``sqrt``, ``abs``, ``sum``, ``amax``.
    given
        Moves an array of NumPy there.
    taken
        Moves an array back.
    is_local
        Whether arrays stay where they are, so that blocks that fit into the processor's cache are computed one by one.
    inside
        Makes a context in which the library computes with the types that it is given.
    """

    functions: Any
    given: Callable[[Any], Any]
    taken: Callable[[Any], Any]
    is_local: bool = False
    inside: Callable[[], AbstractContextManager[Any]] = nullcontext


NUMPY = Space(np, np.asarray, np.asarray, is_local=True)

_CURRENT: ContextVar[Space] = ContextVar("space", default=NUMPY)


def current() -> Space:
    """Return where vectors are computed now."""
    return _CURRENT.get()


@contextmanager
def computing_in(space: Space) -> Iterator[None]:
    """Compute vectors elsewhere inside a ``with``."""
    token = _CURRENT.set(space)
    try:
        with space.inside():
            yield
    finally:
        _CURRENT.reset(token)


def space_of(namespace: str | None, device: str | None) -> Space:
    """Return a space by its name.

    Parameters
    ----------
    namespace
        ``numpy``, ``torch`` or ``jax``; None is ``numpy``, or ``torch`` where a device is named.
    device
        Of PyTorch or JAX: ``cpu``, ``cuda``, ``cuda:1``; None is the first.

    Raises
    ------
    InvalidInputError
        If there is no such namespace or device.
    ModuleNotInstalledException
        If the library is not installed.
    """
    name = namespace or ("numpy" if device is None else "torch")
    if name == "numpy":
        if device not in (None, "cpu"):
            raise InvalidInputError(f"NumPy computes on the CPU; {device!r} needs namespace='torch' or 'jax'")
        return NUMPY
    if name == "torch":
        return _torch(device)
    if name == "jax":
        return _jax(device)
    raise InvalidInputError(f"namespace is 'numpy', 'torch' or 'jax', not {name!r}")


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ModuleNotInstalledException(
            f"namespace={name!r} needs {name}: pip install {name}, or, in a checkout, pip install '.[{name}]'"
        ) from error


def _torch(device: str | None) -> Space:
    torch = _library("torch")
    try:
        place = torch.device(device or "cpu")
        torch.zeros(1, device=place)
    except (RuntimeError, AssertionError) as error:
        raise InvalidInputError(f"PyTorch has no device {device!r}: {error}") from error

    def given(array: Any) -> Any:
        whole = np.ascontiguousarray(array)
        # PyTorch takes no array that it may not write to without a warning.
        return torch.from_numpy(whole if whole.flags.writeable else whole.copy()).to(place)

    return Space(torch, given, lambda tensor: tensor.cpu().numpy())


def _jax(device: str | None) -> Space:
    jax = _library("jax")
    kind, _, number = (device or "").partition(":")
    try:
        places = jax.devices(kind or None)
        place = places[int(number or 0)]
    except (RuntimeError, ValueError, IndexError) as error:
        raise InvalidInputError(f"JAX has no device {device!r}: {error}") from error
    return Space(
        importlib.import_module("jax.numpy"),
        lambda array: jax.device_put(array, place),
        np.asarray,
        inside=_wide(jax),
    )


def _wide(jax: Any) -> Callable[[], AbstractContextManager[Any]]:
    """Return what lets JAX keep 64 bits, which it cuts to 32 unless it is told otherwise; for this thread only."""
    switch = (
        jax.enable_x64
        if hasattr(jax, "enable_x64")
        else importlib.import_module("jax.experimental").enable_x64
    )

    def inside() -> AbstractContextManager[Any]:
        found: AbstractContextManager[Any] = switch(True)
        return found

    return inside
