"""The common base of the loaders of frameworks; batches of NumPy arrays."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NoReturn

from lakebed.errors import InvalidInputError, InvalidOperationError, ModuleNotInstalledException
from lakebed.loaders.collate import collate
from lakebed.loaders.frameworks.arguments import Source, Transform
from lakebed.loaders.frameworks.samples import Fields
from lakebed.loaders.loader import Loader

BUFFER = 2048


class Passes:
    """Methods that loaders of frameworks delegate to the `Loader` that makes their batches."""

    loader: Loader
    chain: tuple[Any, str, Mapping[str, Any]] | None = None
    """Settings, method and arguments of ``ds.dataloader()`` that made the loader; None if other code made it."""
    framework: ClassVar[str]
    """Method of ``ds.dataloader()`` that returns loaders of this class."""

    def __len__(self) -> int:
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass; by default it is the one after the last pass."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the loader; see ``lakebed.Loader.state_dict``."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at the position of another loader; see ``lakebed.Loader.load_state_dict``."""
        self.loader.load_state_dict(state)

    def stats(self) -> Mapping[str, Any]:
        """Return counts and times; see ``lakebed.Loader.stats``."""
        return self.loader.stats()

    def close(self) -> None:
        """End a running iteration."""
        self.loader.close()

    def pytorch(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse, as 3.x does: this is already a loader of a framework."""
        self._refuse("pytorch")

    def tensorflow(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse, as 3.x does: this is already a loader of a framework."""
        self._refuse("tensorflow")

    def numpy(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse, as 3.x does: this is already a loader of a framework."""
        self._refuse("numpy")

    # As in 3.x, settings may follow the method that names the framework; each of these methods returns a new loader.

    def batch(self, batch_size: int, drop_last: bool = False) -> Any:
        """Return a new loader with batches of another size; see ``ds.dataloader().batch``."""
        return self._set("batch", batch_size, drop_last)

    def shuffle(self, shuffle: bool = True, buffer_size: int = BUFFER) -> Any:
        """Return a new loader that shuffles samples; see ``ds.dataloader().shuffle``."""
        return self._set("shuffle", shuffle, buffer_size)

    def transform(self, transform: Transform, **kwargs: Any) -> Any:
        """Return a new loader that transforms samples; see ``ds.dataloader().transform``."""
        return self._set("transform", transform, **kwargs)

    def sample_by(self, weights: Any, replace: bool = True, size: int | None = None) -> Any:
        """Return a new loader that draws rows; see ``ds.dataloader().sample_by``."""
        return self._set("sample_by", weights, replace, size)

    def offset(self, off: int = 0) -> Any:
        """Return a new loader that begins later; see ``ds.dataloader().offset``."""
        return self._set("offset", off)

    def query(self, query_string: str) -> Any:
        """Return a new loader of the rows that a query chooses; see ``ds.dataloader().query``."""
        return self._set("query", query_string)

    def _set(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if self.chain is None:
            raise InvalidOperationError(
                f".{name}() follows ds.dataloader(), as in ds.dataloader().{name}(...).{self.framework}(); "
                f"ds.{self.framework}(...) takes all settings as arguments"
            )
        settings, method, arguments = self.chain
        return getattr(getattr(settings, name)(*args, **kwargs), method)(**arguments)

    def _refuse(self, name: str) -> NoReturn:
        if name == self.framework:
            raise InvalidInputError(f"already called .{name}()")
        raise InvalidInputError(f"Can't call .{name}() after .{self.framework}()")


class NumpyLoader(Passes):
    """Batches of NumPy arrays, as `Fields`; or, if `collate_fn` is given, its results for lists of samples."""

    framework = "numpy"

    def __init__(
        self,
        source: Source,
        batch_size: int,
        collate_fn: Callable[[list[Any]], Any] | None,
        *,
        drop_last: bool,
    ) -> None:
        self.source = source
        self.collate_fn = collate_fn
        self.is_whole = source.is_plain and collate_fn is None
        make = source.batches if self.is_whole else source.samples
        self.loader = make(batch_size, drop_last=drop_last)

    def __iter__(self) -> Iterator[Any]:
        for read in self.loader:
            yield (
                Fields(read) if self.is_whole else self._collated([whole.value for whole in read["samples"]])
            )

    def _collated(self, samples: list[Any]) -> Any:
        if self.collate_fn is not None:
            return self.collate_fn(samples)
        batch = collate(samples)
        return Fields(batch) if isinstance(batch, dict) else batch


def adapter(name: str) -> Any:
    """Return the module for a framework: torch, tensorflow or jax.

    Raises
    ------
    ModuleNotInstalledException
        If the framework is not installed.
    """
    try:
        return importlib.import_module(f"lakebed.loaders.frameworks.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != name:
            raise
        title = {"torch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX"}[name]
        raise ModuleNotInstalledException(
            f"{title} is needed for this and is not installed: pip install 'lakebed[{name}]'"
        ) from error
