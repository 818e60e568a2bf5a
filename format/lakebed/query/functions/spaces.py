"""Array libraries that compute vectors: NumPy, or PyTorch or JAX on a device.

A space offers the array functions that :mod:`lakebed.query.functions.vectors` calls; `given` moves arrays to the device
and `taken` moves them back. PyTorch and JAX are imported only when a query names them.
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
        Namespace with ``matmul``, ``einsum``, ``sqrt``, ``abs``, ``sum`` and ``amax``.
    given
        Function that converts a NumPy array to an array on the device.
    taken
        Function that converts an array of the library to a NumPy array.
    is_local
        True if arrays stay in the memory of NumPy. Then blocks that fit into the processor's cache are computed one by
        one.
    inside
        Function that makes a context in which the library keeps the dtypes of its arguments.
    named
        Namespace and device as :func:`space_of` takes them, from which another process makes the space.
    """

    functions: Any
    given: Callable[[Any], Any]
    taken: Callable[[Any], Any]
    is_local: bool = False
    inside: Callable[[], AbstractContextManager[Any]] = nullcontext
    named: tuple[str | None, str | None] = (None, None)

    def __reduce__(self) -> tuple[Any, ...]:
        return space_of, self.named


NUMPY = Space(np, np.asarray, np.asarray, is_local=True)


@dataclass(frozen=True, slots=True)
class Ways:
    """Choices that affect how a query is answered, but not the answer.

    Attributes
    ----------
    is_exact
        True to use no index.
    space
        Library that computes vectors.
    """

    is_exact: bool = False
    space: Space = NUMPY


_CURRENT: ContextVar[Space] = ContextVar("space", default=NUMPY)


def current() -> Space:
    """Return the space that the running query uses."""
    return _CURRENT.get()


@contextmanager
def computing_in(space: Space) -> Iterator[None]:
    """Compute vectors in the given space inside a ``with``."""
    token = _CURRENT.set(space)
    try:
        with space.inside():
            yield
    finally:
        _CURRENT.reset(token)


def space_of(namespace: str | None, device: str | None) -> Space:
    """Return the space of a library and device.

    Parameters
    ----------
    namespace
        ``numpy``, ``torch`` or ``jax``; None means ``numpy``, or ``torch`` if a device is given.
    device
        Device of PyTorch or JAX, such as ``cpu``, ``cuda`` or ``cuda:1``; None means the first.

    Raises
    ------
    InvalidInputError
        If the namespace or the device does not exist.
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
            f"namespace={name!r} needs {name}: pip install 'lakebed[{name}]'"
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
        # Copy read-only arrays, because PyTorch warns about them.
        return torch.from_numpy(whole if whole.flags.writeable else whole.copy()).to(place)

    return Space(torch, given, lambda tensor: tensor.cpu().numpy(), named=("torch", device))


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
        named=("jax", device),
    )


def _wide(jax: Any) -> Callable[[], AbstractContextManager[Any]]:
    """Return a context in which JAX keeps 64 bits in this thread instead of narrowing them to 32."""
    old = jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")
    return lambda: old.enable_x64(True)
