"""The chained form of Deep Lake 3.x: ``ds.dataloader().batch(32).shuffle().transform(f).pytorch()``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from numpy.typing import ArrayLike

from lakebed.errors import InvalidInputError, InvalidOperationError
from lakebed.errors.root import strict
from lakebed.loaders.frameworks.adapters import BUFFER, NumpyLoader, adapter
from lakebed.loaders.frameworks.arguments import Source, Transform
from lakebed.loaders.order import Shares
from lakebed.loaders.ranks import process_group

if TYPE_CHECKING:
    import tensorflow as tf
    import torch

    from lakebed.loaders.frameworks.jax import JaxLoader

Collate = Callable[[list[Any]], Any]
L = TypeVar("L")


class Rows(Protocol):
    """A dataset or view of the public interface."""

    def __len__(self) -> int: ...

    def summary(self, force: bool = False) -> None:
        """Print a table of the tensors."""

    def query(self, query_string: str) -> Any:
        """Return the rows that a query chooses."""

    def _weights(self, weights: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class DataLoader:
    """Settings of a loader of a dataset; each method returns a copy with one more setting.

    Iteration yields batches of NumPy arrays; :meth:`pytorch`, :meth:`tensorflow` and :meth:`jax` return loaders of
    these frameworks.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://fluent-example")
    >>> _ = ds.create_tensor("x", dtype="int64")
    >>> ds.extend({"x": [1, 2, 3]})
    >>> [batch["x"].tolist() for batch in ds.dataloader().batch(2).transform({"x": lambda x: x * 10})]
    [[[10], [20]], [[30]]]
    """

    dataset: Rows
    make_source: Callable[..., Source] = field(repr=False)
    is_tolerant: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    # -- settings ----------------------------------------------------------------------------------------------------

    def batch(self, batch_size: int, drop_last: bool = False) -> DataLoader:
        """Make batches.

        Parameters
        ----------
        batch_size
            Samples of a batch of this process.
        drop_last
            Leave out the last batch if it is smaller than the other batches.

        Raises
        ------
        InvalidInputError
            If the size is set already, or not positive.
        """
        if batch_size < 1:
            raise InvalidInputError(f"batch_size must be at least 1, not {batch_size}")
        return self._with("batch size", batch_size=batch_size, drop_last=drop_last)

    def shuffle(self, shuffle: bool = True, buffer_size: int = BUFFER) -> DataLoader:
        """Shuffle the samples.

        Parameters
        ----------
        shuffle
            Whether samples are shuffled; ``"exact"`` and ``"chunk"`` as in ``lakebed.Loader``.
        buffer_size
            Megabytes of stored samples, from all parts of the dataset, that are shuffled with each other.

        Raises
        ------
        InvalidInputError
            If shuffling is set already.
        """
        return self._with("shuffle", shuffle=shuffle, buffer_size=buffer_size)

    def transform(self, transform: Transform, **kwargs: Any) -> DataLoader:
        """Transform the samples.

        Parameters
        ----------
        transform
            Function of a sample, which is a dictionary; or a dictionary of functions by tensor. Tensors that such a
            dictionary does not name are left out; tensors that it maps to None are unchanged.
        **kwargs
            More arguments of the function.

        Raises
        ------
        InvalidInputError
            If a transform is set already.
        """
        return self._with("transform", transform=transform, transform_kwargs=kwargs)

    def sample_by(
        self, weights: str | ArrayLike, replace: bool = True, size: int | None = None
    ) -> DataLoader:
        """Draw rows with probabilities in proportion to weights; each epoch draws again.

        Parameters
        ----------
        weights
            One per row; or an expression of the query language that gives one.
        replace
            Whether a row can be drawn more than once.
        size
            Number of rows to draw; by default as many as the dataset has.

        Raises
        ------
        InvalidInputError
            If sampling is set already.
        QueryError
            If an expression does not fit the data.
        """
        if isinstance(weights, str):
            weights = self.dataset._weights(weights)  # noqa: SLF001
        return self._with("sample_by", weights=weights, replace=replace, size=size)

    def query(self, query_string: str) -> DataLoader:
        """Load the rows that a query chooses, in its order.

        Parameters
        ----------
        query_string
            A query of the tensor query language that chooses rows and tensors, and computes nothing.

        Raises
        ------
        QueryError
            If the query does not fit the data.
        InvalidOperationError
            If the query computes columns, or rows were drawn before.
        """
        if "weights" in self.settings:
            raise InvalidOperationError(
                "call query before sample_by: sample_by takes one weight for each row that the query chooses"
            )
        view = self.dataset.query(query_string)
        if not hasattr(view, "_source"):
            raise InvalidOperationError(
                "the query computes columns, which a loader cannot do: store its result with materialize(path), and "
                "load that"
            )
        return replace(self, dataset=view, make_source=view._source)  # noqa: SLF001

    def offset(self, off: int = 0) -> DataLoader:
        """Leave out samples at the start of the first epoch.

        Parameters
        ----------
        off
            Number of samples to leave out.

        Raises
        ------
        InvalidInputError
            If an offset is set already.
        """
        return self._with("offset", offset=off)

    def close(self) -> None:
        """Do nothing: each iteration holds its own resources, and releases them at its end."""

    def _with(self, what: str, **settings: Any) -> DataLoader:
        if settings.keys() & self.settings.keys():
            raise InvalidInputError(f"{what} is already set")
        return replace(self, settings={**self.settings, **settings})

    # -- loaders -----------------------------------------------------------------------------------------------------

    @strict
    def pytorch(
        self,
        num_workers: int = 0,
        collate_fn: Collate | None = None,
        tensors: Sequence[str] | None = None,
        num_threads: int | None = None,
        prefetch_factor: int = 2,
        distributed: bool | None = None,
        return_index: bool = True,
        decode_method: Mapping[str, str] | None = None,
        persistent_workers: bool = False,
        ragged: str | Mapping[str, str] | None = None,
        rank: int | None = None,
        world: int | None = None,
    ) -> torch.utils.data.DataLoader:
        """Return a DataLoader of PyTorch; see ``Dataset.pytorch``.

        Parameters
        ----------
        num_workers
            Number of processes that call the transform, for transforms that hold Python's lock for long; 0 calls it on
            threads.
        collate_fn
            Makes a batch of a list of samples.
        tensors
            Names of tensors; None is all.
        num_threads
            Number of threads; None is one for each core but one.
        prefetch_factor
            Accepted for compatibility: batches are made ahead as memory allows.
        distributed
            True divides the rows among the processes of the process group (see ``Dataset.pytorch``), so that each batch
            is made once. None does so, too, and logs it once; False gives all rows to each process.
        return_index
            Add the numbers of the rows as ``index``.
        decode_method
            As in ``Dataset.pytorch``.
        persistent_workers
            Accepted for compatibility: there are no worker processes.
        ragged
            As in ``Dataset.pytorch``.
        rank, world
            Number of this process and number of all processes; None takes them from the process group.
        """
        arguments = dict(locals())
        torch_adapter = adapter("torch")
        loader: torch.utils.data.DataLoader = torch_adapter.TorchLoader(
            self._source(arguments, is_widened=True),
            self.batch_size,
            collate_fn,
            drop_last=self.drop_last,
            pinned=False,
            ragged=ragged,
        )
        return _chained(loader, "pytorch", arguments)

    @strict
    def tensorflow(
        self,
        num_workers: int = 0,
        collate_fn: Collate | None = None,
        tensors: Sequence[str] | None = None,
        num_threads: int | None = None,
        prefetch_factor: int = 2,
        return_index: bool = True,
        decode_method: Mapping[str, str] | None = None,
        persistent_workers: bool = False,
        distributed: bool | None = None,
        rank: int | None = None,
        world: int | None = None,
    ) -> tf.data.Dataset:
        """Return a ``tf.data.Dataset`` of batches; parameters as in :meth:`pytorch`."""
        return adapter("tensorflow").batches(self._numpy(dict(locals())))

    @strict
    def jax(
        self,
        num_workers: int = 0,
        tensors: Sequence[str] | None = None,
        num_threads: int | None = None,
        decode_method: Mapping[str, str] | None = None,
        return_index: bool = False,
        sharding: Any = None,
        distributed: bool | None = None,
        rank: int | None = None,
        world: int | None = None,
    ) -> JaxLoader:
        """Return a loader of batches of JAX arrays.

        Parameters as in :meth:`pytorch`; `sharding` is the device, or the sharding of JAX, of the arrays. If a sharding
        spans several processes, the rows of all of them form one array; otherwise each process has arrays of its own
        rows.
        """
        arguments = dict(locals())
        loader: JaxLoader = adapter("jax").JaxLoader(self._numpy(arguments), sharding)
        return _chained(loader, "jax", arguments)

    @strict
    def numpy(
        self,
        num_workers: int = 0,
        tensors: Sequence[str] | None = None,
        num_threads: int | None = None,
        prefetch_factor: int = 2,
        decode_method: Mapping[str, str] | None = None,
        persistent_workers: bool = False,
        distributed: bool | None = None,
        rank: int | None = None,
        world: int | None = None,
    ) -> NumpyLoader:
        """Return a loader of batches of NumPy arrays; parameters as in :meth:`pytorch`."""
        arguments = dict(locals())
        return _chained(self._numpy(arguments), "numpy", arguments)

    def _numpy(self, arguments: Mapping[str, Any]) -> NumpyLoader:
        source = self._source(arguments, is_widened=False)
        return NumpyLoader(source, self.batch_size, arguments.get("collate_fn"), drop_last=self.drop_last)

    def _source(self, arguments: Mapping[str, Any], *, is_widened: bool) -> Source:
        own = {"batch_size", "drop_last", "transform", "transform_kwargs"}
        return self.make_source(
            arguments["tensors"],
            self.settings.get("transform"),
            self.settings.get("transform_kwargs"),
            arguments["decode_method"],
            return_index=arguments.get("return_index", False),
            is_widened=is_widened,
            is_plain=not is_widened,
            threads=arguments["num_threads"],
            processes=arguments["num_workers"] if "transform" in self.settings else 0,
            on_error="skip" if self.is_tolerant else "raise",
            distributed=arguments["distributed"],
            rank=arguments["rank"],
            world=arguments["world"],
            **{name: value for name, value in self.settings.items() if name not in own},
        )

    # -- attributes of PyTorch's DataLoader --------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        return iter(self.numpy())

    def __len__(self) -> int:
        size = self.settings.get("size")
        samples = len(self.dataset) if size is None else size
        rank, world = process_group()
        return len(Shares(samples, self.batch_size * world, rank, world, "pad", self.drop_last))

    def summary(self) -> None:
        """Print a table of the tensors of the dataset."""
        self.dataset.summary()

    @property
    def batch_size(self) -> int:
        """Number of samples in a batch."""
        size: int = self.settings.get("batch_size", 1)
        return size

    @property
    def drop_last(self) -> bool:
        """Whether the last batch is left out if it is smaller than the other batches."""
        return bool(self.settings.get("drop_last", False))

    # A DataLoader of PyTorch has these attributes; a DataLoader without worker processes and samplers has these values.
    num_workers = 0
    collate_fn = sampler = batch_sampler = generator = multiprocessing_context = worker_init_fn = None
    persistent_workers = pin_memory = False
    pin_memory_device = ""
    prefetch_factor = timeout = 0


def _chained(loader: L, method: str, arguments: Mapping[str, Any]) -> L:
    """Record in a loader how to make it again with changed settings; `arguments` are the locals of the method."""
    given = {name: value for name, value in arguments.items() if name != "self"}
    loader.chain = arguments["self"], method, given  # type: ignore[attr-defined]
    return loader
