"""Loaders for training, and random splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from lakebed import random
from lakebed.dataset.base import DatasetBase
from lakebed.errors.root import strict

if TYPE_CHECKING:
    import tensorflow as tf
    import torch

    from lakebed.loaders.frameworks.arguments import Source, Transform
    from lakebed.loaders.frameworks.fluent import DataLoader


class LoaderMethods(DatasetBase):
    """Batches for PyTorch, TensorFlow, JAX and NumPy; random splits."""

    def pytorch(
        self,
        transform: Transform | None = None,
        tensors: Sequence[str] | None = None,
        num_workers: int = 1,
        batch_size: int | None = 1,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        shuffle: bool = False,
        buffer_size: int = 2048,
        use_local_cache: bool = False,
        progressbar: bool = False,
        return_index: bool = True,
        pad_tensors: bool = False,
        transform_kwargs: Mapping[str, Any] | None = None,
        decode_method: Mapping[str, str] | None = None,
        cache_size: int = 32_000_000,
        *,
        processes: int = 0,
        ragged: str | Mapping[str, str] | None = None,
        distributed: bool | None = None,
        rank: int | None = None,
        world: int | None = None,
        **kwargs: Any,
    ) -> torch.utils.data.DataLoader:
        """Return a DataLoader of PyTorch, whose batches are made on threads of this process.

        Batches are dictionaries of tensors; unpacking one yields its values: ``for images, labels, index in loader``.
        Unsigned integers of two bytes or more become signed ones, numbers have the shape (batch, 1), text and json are
        lists. Each pass is the next epoch. The order follows from ``lakebed.random.seed``; without that seed from
        ``torch.manual_seed``, or it differs in each run.

        Parameters
        ----------
        transform
            Function of a sample, which is a dictionary of arrays; or a dictionary of functions by tensor, in which None
            keeps a tensor unchanged. Tensors that this dictionary lacks are left out.
        tensors
            Names of tensors; None is all.
        num_workers
            Number of threads if above 1; otherwise the number of cores minus one. No worker processes are used.
        batch_size
            Number of samples in a batch; None for single samples.
        drop_last
            Leave out the last batch if it is smaller than the other batches.
        collate_fn
            Function that combines a list of samples into a batch.
        pin_memory
            Copy batches to pinned memory, if a CUDA device exists.
        shuffle
            Shuffle the samples.
        buffer_size
            Megabytes of stored samples, from all parts of the dataset, that are shuffled with each other.
        use_local_cache
            Accepted for compatibility.
        progressbar
            Show a progress bar.
        return_index
            Add the row numbers as ``index``.
        pad_tensors
            Read as many rows as the longest tensor has; samples that shorter tensors lack are empty.
        transform_kwargs
            Further arguments of the transform.
        decode_method
            By tensor: ``numpy``, ``tobytes`` for stored bytes, ``pil`` for images of Pillow, ``data`` for the result
            of ``Tensor.data``.
        cache_size
            Accepted for compatibility.
        processes
            Number of processes that call the transform, for transforms that hold Python's lock for long.
        ragged
            Form of samples that differ in shape, for all tensors or by name: a ``list`` of tensors, one tensor padded
            with zeros (``pad``), or a ``nested`` tensor.
        distributed
            Read only the share of this process in its process group (that of ``torch.distributed`` or
            ``jax.distributed``, or the workers of ``TF_CONFIG`` if TensorFlow is imported). Together the processes
            read every batch once, each process the same number of batches. None has the same effect, and logs it once;
            False reads all rows in each process.
        rank, world
            Number of this process, and number of all processes, in place of the process group's numbers.
        **kwargs
            ``num_threads``, as `num_workers`; and arguments of 3.x without effect: ``persistent_workers``,
            ``prefetch_factor``, ``timeout``, ``multiprocessing_context``, ``verbose``.

        Returns
        -------
        An instance of ``torch.utils.data.DataLoader`` with ``state_dict``, ``load_state_dict``, ``set_epoch``,
        ``stats`` and ``close``.

        Raises
        ------
        ModuleNotInstalledException
            If PyTorch is not installed.
        EmptyTensorError
            If a tensor holds no samples.
        TensorDoesNotExistError
            If the tensor does not exist.
        TypeError
            If an argument is unknown.
        """
        from lakebed.loaders.frameworks.adapters import adapter
        from lakebed.loaders.frameworks.arguments import check_known

        check_known("pytorch", kwargs, LoaderMethods.pytorch.__annotations__)
        source = self._source(
            tensors,
            transform,
            transform_kwargs,
            decode_method,
            return_index=return_index,
            is_padded=pad_tensors,
            shuffle=shuffle,
            buffer_size=buffer_size,
            threads=num_workers if num_workers > 1 else kwargs.get("num_threads"),
            processes=processes,
            progress=progressbar,
            distributed=distributed,
            rank=rank,
            world=world,
        )
        loader: torch.utils.data.DataLoader = adapter("torch").TorchLoader(
            source, batch_size, collate_fn, drop_last=drop_last, pinned=pin_memory, ragged=ragged
        )
        return loader

    def __getitems__(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Read rows for ``torch.utils.data.DataLoader(ds)``: numbers, text, and arrays, which its collate stacks.

        Class labels are numbers, missing values None. The log says once that :meth:`pytorch` is faster, and which
        samples PyTorch cannot stack.
        """
        from lakebed.loaders.frameworks.samples import fetched

        view = self[[int(row) for row in rows]]  # type: ignore[index]
        return fetched(next(iter(view.batches(len(rows)))))

    @strict
    def torch_dataset(
        self,
        transform: Transform | None = None,
        tensors: Sequence[str] | None = None,
        *,
        shuffle: bool = False,
        seed: int | None = None,
        map_style: bool = False,
        distributed: bool | None = None,
        rank: int | None = None,
        world: int | None = None,
        return_index: bool = False,
        decode_method: Mapping[str, str] | None = None,
        buffer_size: int = 512,
    ) -> torch.utils.data.Dataset:
        """Return a dataset of PyTorch, for your own DataLoader, Lightning, accelerate or a Trainer.

        Samples are dictionaries of arrays, text and Python values. If the DataLoader has worker processes, each of them
        reads a share of the samples; :meth:`pytorch` makes batches on threads and is faster.

        Parameters
        ----------
        transform, decode_method
            As for :meth:`pytorch`.
        tensors
            Names of tensors; None is all.
        shuffle
            Shuffle the samples, in another order for each pass.
        seed
            Seed of the order; None takes the seed of ``lakebed.random.seed``, or a random seed (see
            ``lakebed.Loader``).
        map_style
            Return samples by number, for samplers of PyTorch, which then decide the order.
        distributed
            True reads only the share of this process in its process group. None has the same effect, and logs it once.
            False reads all rows in each process, as trainers such as accelerate need, which distribute samples
            themselves.
        rank, world
            Number of this process, and number of all processes, in place of the process group's numbers.
        return_index
            Add the row number as ``index``.
        buffer_size
            Megabytes of stored samples that are shuffled with each other.

        Returns
        -------
        An ``IterableDataset`` with ``set_epoch``, ``state_dict`` and ``load_state_dict``; or a map-style ``Dataset``.

        Raises
        ------
        ModuleNotInstalledException
            If PyTorch is not installed.
        InvalidInputError
            If ``map_style`` is combined with a share of the rows.
        """
        from lakebed.loaders.frameworks.adapters import adapter
        from lakebed.loaders.ranks import Ranks

        source = self._source(
            tensors,
            transform,
            None,
            decode_method,
            return_index=return_index,
            is_plain=True,
            shuffle=shuffle,
            seed=seed,
            buffer_size=buffer_size,
        )
        datasets = adapter("torch")
        kind = datasets.TorchRows if map_style else datasets.TorchDataset
        found: torch.utils.data.Dataset = kind(source, Ranks(rank, world, distributed))
        return found

    @strict
    def tensorflow(
        self,
        tensors: Sequence[str] | None = None,
        tobytes: bool | Sequence[str] = False,
        fetch_chunks: bool = True,
        distributed: bool | None = None,
        rank: int | None = None,
        world: int | None = None,
    ) -> tf.data.Dataset:
        """Return a ``tf.data.Dataset`` of the samples, in order.

        Parameters
        ----------
        tensors
            Names of tensors; None is all.
        tobytes
            Return stored bytes instead of values: True for all tensors, or the names of some.
        fetch_chunks
            Accepted for compatibility.
        distributed, rank, world
            As for :meth:`pytorch`.

        Returns
        -------
        A dataset of dictionaries of tensors: text and bytes are strings of shape (1,), json and lists are JSON strings
        of this shape.

        Raises
        ------
        ModuleNotInstalledException
            If TensorFlow is not installed.
        """
        from lakebed.loaders.frameworks.adapters import adapter

        names = self._shown(self._session.schema()) if tensors is None else list(tensors)
        encoded = names if tobytes is True else [] if tobytes is False else list(tobytes)
        source = self._source(
            names,
            None,
            None,
            dict.fromkeys(encoded, "tobytes"),
            return_index=False,
            is_widened=False,
            is_plain=True,
            distributed=distributed,
            rank=rank,
            world=world,
        )
        return adapter("tensorflow").samples(source)

    def dataloader(self, ignore_errors: bool = False, verbose: bool = False) -> DataLoader:
        """Return a loader whose settings can be chained: ``ds.dataloader().batch(32).shuffle().pytorch()``.

        Parameters
        ----------
        ignore_errors
            Leave out samples that cannot be read or transformed.
        verbose
            Print a summary of the dataset.

        Returns
        -------
        A loader; its methods ``batch``, ``shuffle``, ``transform``, ``sample_by`` and ``offset`` return new loaders.
        """
        from lakebed.loaders.frameworks.fluent import DataLoader

        if verbose:
            print(self)
        return DataLoader(self, self._source, is_tolerant=ignore_errors)  # type: ignore[arg-type]

    def random_split(self, lengths: Sequence[float], seed: int | None = None) -> list[Self]:
        """Split the rows at random into views; the same seed gives the same views.

        Parameters
        ----------
        lengths
            Number of rows of each view; or fractions that add up to 1, where rows left by rounding are added to the
            first views.
        seed
            Seed of the split; None takes that of ``lakebed.random.seed``. Without a seed the split is the same in all
            processes of a process group, and random otherwise, by the generator of PyTorch if that is imported.

        Returns
        -------
        A view for each length.

        Raises
        ------
        InvalidInputError
            If the lengths do not add up to the number of rows of this dataset, or a length is negative; or if one
            tensor is empty and others are not.
        """
        from lakebed.loaders.draws import fresh_seed, split
        from lakebed.loaders.ranks import process_group

        count = len(self._table().shared_rows())
        given = random.get_seed() if seed is None else seed
        if given is None:
            given = 0 if process_group()[1] > 1 else fresh_seed()
        rows = split(lengths, count, given)
        return [self[part] for part in rows]  # type: ignore[index]

    def _source(
        self,
        tensors: Sequence[str] | None,
        transform: Transform | None,
        transform_kwargs: Mapping[str, Any] | None,
        decode_method: Mapping[str, str] | None,
        **settings: Any,
    ) -> Source:
        """Return the source of a loader; `settings` are further arguments of ``source_of``."""
        from lakebed.loaders.frameworks.arguments import source_of

        if isinstance(transform, Mapping):
            tensors = [name for name in transform if name != "index"]
        elif tensors is not None and "index" in tensors and "index" not in self:  # type: ignore[operator]
            # As in 3.x, ``index`` means the row number if no tensor has that name.
            tensors, settings["return_index"] = [name for name in tensors if name != "index"], True
        table = self._table(self._shown(self._session.schema()) if tensors is None else tensors)
        return source_of(table, self._unselected, transform, transform_kwargs, decode_method, **settings)

    def _unselected(self) -> Self:
        return type(self)(self._handle, self._group, None, self._columns, pad=True)
