"""A dataset's facade: loaders for training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from lakebed import random
from lakebed.dataset._base import DatasetBase
from lakebed.errors.root import strict

if TYPE_CHECKING:
    import tensorflow as tf
    import torch

    from lakebed.loaders.frameworks.arguments import Source, Transform
    from lakebed.loaders.frameworks.fluent import DataLoader


class LoaderMethods(DatasetBase):
    """Batches for PyTorch, TensorFlow, JAX and NumPy; splits."""

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

        Batches are dictionaries of tensors that yield their values when they are unpacked:
        ``for images, labels, index in loader``. Unsigned integers of two bytes or more become signed ones, numbers have
        the shape (batch, 1), text and json are lists. Each pass is the next epoch. The order follows from
        ``lakebed.random.seed``; without one it is another in each run, or follows from ``torch.manual_seed``.

        Parameters
        ----------
        transform
            Function of a sample, a dictionary of arrays; or a dictionary of functions by tensor, which leaves out
            tensors that it does not name, and leaves those as they are that it maps to None.
        tensors
            Which tensors; None is all.
        num_workers
            Threads, where it is above 1; otherwise one for each core but one. There are no worker processes.
        batch_size
            Samples of a batch; None for single samples.
        drop_last
            Leave out a last batch that is smaller than others.
        collate_fn
            Makes a batch of a list of samples.
        pin_memory
            Copy batches to pinned memory, if there is a CUDA device.
        shuffle
            Mix the samples.
        buffer_size
            Megabytes of stored samples, from all parts of the dataset, that are mixed with each other.
        use_local_cache
            Accepted for compatibility.
        progressbar
            Show a bar.
        return_index
            Add the numbers of the rows as ``index``.
        pad_tensors
            Take as many rows as the longest tensor has; those that others lack are empty samples.
        transform_kwargs
            More arguments of the transform.
        decode_method
            By tensor: ``numpy``, ``tobytes`` for what is stored, ``pil`` for images of Pillow, ``data`` for what
            ``Tensor.data`` returns.
        cache_size
            Accepted for compatibility.
        processes
            Processes that call the transform, for one that holds Python's lock for long.
        ragged
            What becomes of samples that differ in shape, for all tensors or by name: a ``list`` of tensors, one tensor
            with zeros (``pad``), or a ``nested`` tensor.
        distributed
            Take the share of this process of its process group, which is that of ``torch.distributed`` or
            ``jax.distributed``, or the workers of ``TF_CONFIG`` where TensorFlow is imported: together the processes
            take every batch once, all of them equally many. None does so, too, and says it once in the log; False gives
            all rows to each process.
        rank, world
            Number of this process and of all, in place of those of the process group.
        **kwargs
            ``num_threads``, as `num_workers`; and arguments of 3.x that change nothing here: ``persistent_workers``,
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
            If there is no such tensor.
        TypeError
            If there is no such argument.
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
            source,
            batch_size,
            collate_fn,
            drop_last=drop_last,
            pinned=pin_memory,
            ragged=ragged,
        )
        return loader

    def __getitems__(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Read rows for ``torch.utils.data.DataLoader(ds)``: numbers, text, and arrays, which its collate stacks.

        Class labels are numbers, missing values None. It is said once in the log that :meth:`pytorch` is faster, and
        which samples PyTorch cannot stack.
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
        """Return a dataset of PyTorch, for a DataLoader of one's own, Lightning, accelerate or a Trainer.

        Samples are dictionaries of arrays, text and Python values. Where the DataLoader has worker processes, each
        reads a share, whether they are forked or spawned; batches from threads come faster from :meth:`pytorch`.

        Parameters
        ----------
        transform
            As of :meth:`pytorch`.
        tensors
            Which tensors; None is all.
        shuffle
            Mix the samples; each pass in another order.
        seed
            What the order follows from; None for that of ``lakebed.random.seed``, or chance (see ``lakebed.Loader``).
        map_style
            Return samples by number instead, for samplers of PyTorch, which then decide the order.
        distributed
            Take the share of this process of its process group. Trainers that share samples out themselves, as
            accelerate does, need all rows in each process, which is what False gives; None does so, too, and says it
            once in the log.
        rank, world
            Number of this process and of all, in place of those of the process group.
        return_index
            Add the number of the row as ``index``.
        decode_method
            As of :meth:`pytorch`.
        buffer_size
            Megabytes of stored samples that are mixed with each other.

        Returns
        -------
        An ``IterableDataset`` with ``set_epoch``, ``state_dict`` and ``load_state_dict``; or a map-style ``Dataset``.

        Raises
        ------
        ModuleNotInstalledException
            If PyTorch is not installed.
        InvalidInputError
            If samples by number are to be parted.
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
        """Return a ``tf.data.Dataset`` of the samples, in sequence.

        Parameters
        ----------
        tensors
            Which tensors; None is all.
        tobytes
            Give what is stored instead of values: True for all tensors, or the names of some.
        fetch_chunks
            Accepted for compatibility.
        distributed, rank, world
            As of :meth:`pytorch`.

        Returns
        -------
        Dictionaries of tensors: text, bytes, json and lists as strings of shape (1,), the latter two as JSON.

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
        """Return a loader whose settings are chained: ``ds.dataloader().batch(32).shuffle().pytorch()``.

        Parameters
        ----------
        ignore_errors
            Leave out samples that cannot be read or transformed.
        verbose
            Print a summary of the dataset.

        Returns
        -------
        A new one with each call of ``batch``, ``shuffle``, ``transform``, ``sample_by`` and ``offset``.
        """
        from lakebed.loaders.frameworks.fluent import DataLoader

        if verbose:
            print(self)
        return DataLoader(self, self._source, is_tolerant=ignore_errors)  # type: ignore[arg-type]

    def random_split(self, lengths: Sequence[float], seed: int | None = None) -> list[Self]:
        """Return views that share the rows out at random.

        The same seed gives the same views.

        Parameters
        ----------
        lengths
            Rows of each view; or fractions that add up to 1, of which the first get the rows that are left over.
        seed
            What the choice follows from; None for that of ``lakebed.random.seed``. Without one it is the same in all
            processes of a process group, and else chance, by the generator of PyTorch where that is imported.

        Returns
        -------
        A view for each length.

        Raises
        ------
        InvalidInputError
            If lengths do not add up to the rows of this dataset, or one is negative; or if a tensor is empty beside
            others, which it would hide.
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
        """Return what loaders are made of; `settings` are those of ``loaders.arguments.source_of``."""
        from lakebed.loaders.frameworks.arguments import source_of

        if isinstance(transform, Mapping):
            tensors = [name for name in transform if name != "index"]
        elif tensors is not None and "index" in tensors and "index" not in self:  # type: ignore[operator]
            # As in 3.x: no tensor, but the number of the row.
            tensors, settings["return_index"] = [name for name in tensors if name != "index"], True
        table = self._table(self._shown(self._session.schema()) if tensors is None else tensors)
        return source_of(table, self._unselected, transform, transform_kwargs, decode_method, **settings)

    def _unselected(self) -> Self:
        return type(self)(self._handle, self._group, None, self._columns, pad=True)
