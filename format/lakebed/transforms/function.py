"""The functions for users: ``compute``, ``compose``, and ``transform`` for functions that return their rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any, overload

from lakebed.errors import (
    HubComposeEmptyListError,
    HubComposeIncompatibleFunction,
    InvalidInputError,
    UnsupportedParameterException,
)
from lakebed.transforms.output import ValueIn
from lakebed.transforms.report import TransformReport
from lakebed.transforms.run import Options, run
from lakebed.transforms.source import source_of
from lakebed.transforms.stages import Stage

Maker = Callable[..., "ComputeFunction"]

# Arguments of 3.x that have no effect here.
_WITHOUT_MEANING = frozenset({"disable_label_sync", "extend_only", "disable_rechunk", "lock", "overwrite"})


class Pipeline:
    """Functions of which each one receives the rows of the previous one; made by ``compose``."""

    def __init__(self, functions: Sequence[ComputeFunction]) -> None:
        self.functions = list(functions)

    def __len__(self) -> int:
        return len(self.functions)

    if not TYPE_CHECKING:  # type checkers would otherwise accept every name

        def __getattr__(self, name: str) -> Any:
            """Raise an error that names the replacement of a name that only 3.x has."""
            from lakebed.runtime.absent import explained

            if (told := explained(type(self).__name__, name)) is not None:
                raise AttributeError(told)
            return object.__getattribute__(self, name)  # raises the original error

    def _stages(self) -> list[Stage]:
        return [stage for function in self.functions for stage in function._stages()]  # noqa: SLF001

    @property
    def name(self) -> str:
        """Names of the functions, in order."""
        names = [stage.name for stage in self._stages()]
        return names[0] if len(names) == 1 else f"[{', '.join(names)}]"

    def eval(
        self,
        data_in: Any,
        ds_out: Any | None = None,
        num_workers: int = 0,
        scheduler: str = "threaded",
        progressbar: bool = True,
        skip_ok: bool = False,
        check_lengths: bool = True,
        pad_data_in: bool = False,
        read_only_ok: bool = False,
        cache_size: float = 16,
        checkpoint_interval: int = 0,
        ignore_errors: bool = False,
        verbose: bool = True,
        resume: bool = True,
        **kwargs: Any,
    ) -> TransformReport:
        """Call the functions with every item of an input, and append the resulting rows to a dataset, in input order.

        All rows are published at once at the end, or after each ``checkpoint_interval`` items. If the call fails, the
        dataset is as it was before the call, or at the last checkpoint, after which the same call continues.

        Parameters
        ----------
        data_in
            A dataset or view, whose rows are passed to the function; a list, an array, an Arrow table, a data frame; an
            object with ``len`` and ``[i]``; or an iterable.
        ds_out
            The dataset that receives the rows; None replaces the rows of ``data_in``.
        num_workers
            Number of workers; 0 works in this thread.
        scheduler
            ``"threaded"``, ``"processed"`` (a Python process for each worker), ``"ray"`` (a cluster), ``"serial"``.
        progressbar
            Show the progress: a bar, or a line a minute if the output is not a terminal.
        skip_ok
            Rows may lack tensors; these tensors are not changed.
        check_lengths
            Refuse an output whose tensors differ in length.
        pad_data_in
            If tensors of the input differ in length, read as many rows as the longest has; missing samples are empty.
        read_only_ok
            For a read-only dataset as input and output: call the functions, and store nothing.
        cache_size
            Maximum size of the values that wait to be encoded, in MB for each worker.
        checkpoint_interval
            Commit after this many items; 0 publishes once at the end, without a commit.
        ignore_errors
            Leave out and report items that fail, instead of raising an error.
        verbose
            With ``ignore_errors``, print the items that were left out.
        resume
            Continue after the last checkpoint of the same transform. False removes its rows and starts over.
        kwargs
            Arguments of 3.x that have no effect here: ``disable_label_sync``, ``extend_only`` and others.

        Returns
        -------
        A report: items, rows, and what was left out.

        Raises
        ------
        TransformError
            If an item fails; the error has the item's number as ``index``, its text as ``item``, and the function's
            error as its cause.
        InvalidInputDataError, InvalidOutputDatasetError
            If the input has no items, or the output cannot take rows.
        ResumeError
            If an unfinished transform of this name had another input.
        AllSamplesSkippedError
            If every item failed.
        """
        arguments = dict(locals())
        _check_known(kwargs)
        return run(self.name, self._stages(), data_in, ds_out, Options.of(arguments))


class ComputeFunction(Pipeline):
    """A function with all its arguments except the samples; returned by a function that ``compute`` has decorated."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str
    ) -> None:
        super().__init__([self])
        self._stage = Stage(function, name, args, dict(kwargs))

    def _stages(self) -> list[Stage]:
        return [self._stage]

    def __call__(self, sample_in: Any) -> Any:
        """Call the function itself with a sample and its arguments."""
        return self._stage.function(sample_in, *self._stage.args, **self._stage.kwargs)


@overload
def compute(fn: Callable[..., Any], name: str | None = None) -> Maker: ...


@overload
def compute(fn: None = None, name: str | None = None) -> Callable[[Callable[..., Any]], Maker]: ...


def compute(fn: Callable[..., Any] | None = None, name: str | None = None) -> Any:
    """Make a transform of a function ``(sample_in, sample_out, ...)``; see the example for its use.

    Parameters
    ----------
    fn
        Function that adds rows to ``sample_out``, by ``sample_out.append({"images": image})`` or
        ``sample_out.images.append(image)``.
    name
        Name of the transform in messages and commits; None takes the function's own name.

    Returns
    -------
    A function of the other arguments, which returns a :class:`ComputeFunction`.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://computed")
    >>> _ = ds.create_tensor("x", dtype="int64")
    >>> @lakebed.compute
    ... def times(sample_in, sample_out, factor):
    ...     sample_out.x.append(sample_in * factor)
    >>> _ = times(factor=10).eval([1, 2, 3], ds, progressbar=False)
    >>> ds.x.numpy().ravel().tolist()
    [10, 20, 30]
    """
    if fn is None:
        return lambda function: compute(function, name)
    if not callable(fn):
        raise InvalidInputError(f"compute takes a function, not {type(fn).__name__}")
    called = _name(fn, name)

    @functools.wraps(fn)
    def made(*args: Any, **kwargs: Any) -> ComputeFunction:
        return ComputeFunction(fn, args, kwargs, called)

    return made


def compose(functions: Sequence[ComputeFunction]) -> Pipeline:
    """Chain transforms: each is called with the rows of the previous one, ``row.images.numpy()``.

    Parameters
    ----------
    functions
        Calls of functions that were decorated with ``compute``: ``[load(), resize(size=224)]``.

    Returns
    -------
    The chain, to be called as ``.eval(...)``.

    Raises
    ------
    HubComposeEmptyListError
        If the list is empty.
    HubComposeIncompatibleFunction
        If an element of the list is not such a call.
    """
    if not functions:
        raise HubComposeEmptyListError("Cannot deeplake.compose an empty list.")
    for index, function in enumerate(functions):
        if not isinstance(function, Pipeline):
            raise HubComposeIncompatibleFunction(
                f"The element passed to deeplake.compose at index {index} is incompatible. Ensure that functions are "
                "all decorated with deeplake.compute decorator and instead of passing my_fn, use my_fn() or "
                "my_fn(arg1=5, arg2=3) in the list."
            )
    return Pipeline(functions)


def transform(
    fn: Callable[..., Any],
    data_in: Any,
    ds_out: Any | None = None,
    *,
    batch_size: int | None = None,
    num_workers: int = 0,
    scheduler: str = "threaded",
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    progressbar: bool = False,
    skip_ok: bool = False,
    check_lengths: bool = True,
    cache_size: float = 16,
    checkpoint_interval: int = 0,
    ignore_errors: bool = False,
    verbose: bool = True,
    resume: bool = True,
    before_publish: Callable[[TransformReport], object] | None = None,
    copy: bool = True,
    rows_apart: bool = False,
) -> TransformReport:
    """Call a function with every item of an input, and append the rows that it returns to a dataset.

    Parameters
    ----------
    fn
        Returns a row ``{tensor: value}``, several rows, or None for none; with ``batch_size`` columns
        ``{tensor: values}``, or an iterator over several. The function receives rows of a dataset as
        ``{tensor: value}``, and batches as columns. If it returns :class:`Skipped` in place of a row, the row counts as
        left out; without ``ignore_errors``, the transform fails.
    data_in, ds_out
        As for :meth:`Pipeline.eval`.
    batch_size
        Number of items per call; if None, each call receives a single item.
    num_workers, scheduler
        As for :meth:`Pipeline.eval`.
    args, kwargs
        Further arguments of the function.
    name
        Name of the transform in messages and commits; None takes the function's own name.
    progressbar, skip_ok, check_lengths, cache_size, checkpoint_interval, ignore_errors, verbose, resume
        As for :meth:`Pipeline.eval`.
    before_publish
        Function that is called with the report so far before each checkpoint and before the end; its changes to the
        dataset are published together with the rows.
    copy
        Copy values that the function may change after it has returned or yielded them.
    rows_apart
        With ``ignore_errors``, leave out only the row that cannot be written, not all rows of its item.

    Returns
    -------
    A report: items, rows, and what was left out.

    Raises
    ------
    TransformError
        If an item fails, or input and output do not fit together.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://transformed")
    >>> _ = ds.create_tensor("x", dtype="int64")
    >>> def squares(batch):
    ...     return {"x": batch * batch}
    >>> import numpy as np
    >>> _ = lakebed.transform(squares, np.arange(4), ds, batch_size=2)
    >>> ds.x.numpy().ravel().tolist()
    [0, 1, 4, 9]
    """
    arguments = dict(locals())
    called = _name(fn, name)
    style = "return" if batch_size is None else "batch"
    stage = Stage(fn, called, tuple(args), dict(kwargs or {}), style, copy)  # type: ignore[arg-type]
    return run(called, [stage], data_in, ds_out, Options.of({**arguments, "as_dicts": True}))


def lacking_tensors(
    fn: Callable[..., Any], data: Any, known: Container[str], batch_size: int | None
) -> dict[str, dict[str, Any]]:
    """Call a function with the first item or batch, and return the tensors that a dataset lacks for its rows.

    The result is {name: settings}. The settings are the dtype for bools, because 3.x stores bools as numbers, and the
    classes for labels of the input dataset; otherwise they are empty.

    Parameters
    ----------
    fn, data, batch_size
        As for :func:`transform`.
    known
        Names of existing tensors.
    """
    source = source_of(data, pad=False, as_dicts=True)
    if batch_size is None:
        items = source.items(source.payload(0, 1), 0, 1)
    else:
        stop = batch_size if source.length is None else min(batch_size, source.length)
        items = source.batches(source.payload(0, stop), 0, stop, batch_size)
    made: dict[str, dict[str, Any]] = {}
    for item in islice(items, 1):
        found = fn(item)
        rows = [found] if isinstance(found, Mapping) or not isinstance(found, Iterable) else found
        for row in rows:
            for name, value in row.items() if isinstance(row, Mapping) else ():
                words = value.words if isinstance(value, ValueIn) else None
                labels = {"htype": "class_label", "class_names": words} if words else {}
                made[name] = {"dtype": "bool"} if isinstance(value, bool) else labels
    return {name: settings for name, settings in made.items() if name not in known}


def _name(function: Callable[..., Any], name: str | None) -> str:
    return name or str(getattr(function, "__name__", type(function).__name__))


def _check_known(kwargs: Mapping[str, Any]) -> None:
    unknown = sorted(kwargs.keys() - _WITHOUT_MEANING)
    if unknown:
        near = get_close_matches(unknown[0], Pipeline.eval.__annotations__, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise UnsupportedParameterException(
            f"eval has no argument {unknown[0]!r}{hint} Arguments of the function go into its "
            "call: my_fn(arg=5).eval(...)"
        )
