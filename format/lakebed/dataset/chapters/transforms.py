"""Method that calls a function with every row."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

from lakebed.dataset.base import DatasetBase
from lakebed.errors import TensorDoesNotExistError, TensorMismatchError, TransformError
from lakebed.errors.root import unexpected


class TransformMethods(DatasetBase):
    """Transformation of the rows of a dataset, in place or into another dataset."""

    def _map(
        self,
        fn: Callable[..., Any],
        ds_out: DatasetBase | None = None,
        *,
        batched: bool = False,
        num_proc: int | None = None,
        **options: Any,
    ) -> Self:
        """Call a function with every row and store the result: ``ds.map``, unless a tensor has that name.

        Parameters
        ----------
        fn
            Function that takes a row ``{tensor: value}``, and returns one row, several, or None; with ``batch_size`` it
            takes and returns columns.
        ds_out
            Dataset to append the rows to; None replaces, in this one, the rows of the tensors that the function
            returns. Missing tensors are created with the type of their first values.
        batched, num_proc
            Names that Hugging Face uses for ``batch_size=1000`` and ``num_workers``.
        options
            Options of ``lakebed.transform``: ``batch_size``, ``num_workers``, ``scheduler``, ``checkpoint_interval``,
            ...

        Returns
        -------
        The dataset that was changed: this one, or ``ds_out``.

        Raises
        ------
        TransformError
            If a row fails; its cause is the error of the function.
        TypeError
            If an option is unknown.

        Examples
        --------
        >>> import lakebed
        >>> ds = lakebed.empty("mem://mapped")
        >>> _ = ds.create_tensor("x", dtype="int64")
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.map(lambda row: {"x": row["x"] * 2})
        >>> ds.x.numpy().ravel().tolist()
        [2, 4, 6]
        >>> _ = ds.map(lambda row: {"half": row["x"] / 2})
        >>> ds.half.numpy().ravel().tolist()
        [1.0, 2.0, 3.0]
        """
        from lakebed.transforms.function import lacking_tensors, transform

        known = {"batched", "num_proc", "ds_out", *(transform.__kwdefaults__ or ())}
        if unknown := min(options.keys() - known, default=None):
            raise unexpected("map", unknown, known)
        target: Any = self if ds_out is None else ds_out
        given = {
            "skip_ok": True if ds_out is None else None,
            "batch_size": 1000 if batched else None,
            "num_workers": num_proc,
        }
        options = {name: value for name, value in given.items() if value is not None} | options
        try:
            transform(fn, self, ds_out, **options)
        except TransformError as error:
            if not isinstance(error.__cause__, TensorDoesNotExistError | TensorMismatchError):
                raise
            lacking = lacking_tensors(fn, self, target._table().names, options.get("batch_size"))  # noqa: SLF001
            if not lacking:
                raise
        else:
            return target  # type: ignore[no-any-return]
        with ExitStack() as undo:
            for name, settings in lacking.items():
                target.create_tensor(name, **settings)
                undo.callback(target.delete_tensor, name, large_ok=True)
            transform(fn, self, ds_out, **options)
            undo.pop_all()
        return target  # type: ignore[no-any-return]
