"""Call the functions of a pipeline with one item, and collect the rows that they make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lakebed.errors import InvalidTransformDataset, TensorMismatchError
from lakebed.runtime.failures import OnFailure
from lakebed.transforms.output import RowIn, RowsOfItems, SampleOut, Skipped, ValueIn, held_bytes

Rows = dict[str, Any]
"""Columns by tensor, of equal length."""


@dataclass(frozen=True, slots=True)
class WholeRows:
    """A few rows {tensor: value} exactly as a function returned them; each row has all tensors.

    Parameters
    ----------
    nbytes
        Approximate size of the rows in bytes.
    """

    rows: list[dict[str, Any]]
    nbytes: int


# How a function delivers the rows of an item or of a batch: it adds them to its second argument ("out"), or returns
# them.
Style = Literal["out", "return", "batch"]


@dataclass(frozen=True, slots=True)
class Stage:
    """A function and its further arguments; each call adds the leading arguments (item and output).

    ``copy``: values are copied, since the function may change them after it has returned or added them.
    """

    function: Callable[..., Any]
    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    style: Style = "out"
    copy: bool = True


class Stages:
    """Caller of the functions of a pipeline, one after another.

    Parameters
    ----------
    tensors
        Names of the output's tensors.
    skip_ok
        Rows may leave tensors out.
    overflow
        Called with columns {tensor: values} of an item whose rows exceed ``limit`` bytes, before the function ends.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        tensors: Collection[str],
        *,
        skip_ok: bool,
        overflow: Callable[[Rows], object],
        limit: float,
    ) -> None:
        *first, self._last = stages
        self._first = first
        self._tensors = tensors
        self._skip_ok = skip_ok
        self._inner = [SampleOut(None) for _ in first]
        self._out = SampleOut(tensors, overflow, limit, copy=self._last.copy)
        self._overflow = overflow
        self._limit = limit
        # Do not copy rows that the function cannot change any more.
        self._whole = (
            frozenset(tensors) if not first and self._last.style == "return" and not self._last.copy else None
        )
        # Tensor -> number of rows of a batch that were passed to `overflow` before the end of the batch.
        self._sent: dict[str, int] = {}
        self.is_batched = self._last.style == "batch"
        self.left_out: list[Skipped] = []

    def rows(self, item: Any) -> Rows | WholeRows:
        """Return the rows of an item (or a batch); no columns if the item has no rows.

        Raises
        ------
        InvalidTransformDataset
            If one tensor got more rows than another.
        TensorMismatchError
            If the rows name other tensors than the output has.
        Exception
            Any error that a function raises.
        """
        out = self._out
        self.left_out, self._sent = [], {}
        with OnFailure(self._forget):
            if self._last.style == "batch":
                found = self._batches(self._call(self._last, item))
            elif self._whole is not None:
                whole = self._whole_rows(self._call(self._last, item), self._whole)
                found = out.take()
                if whole is not None and not found and not self.overflowed:
                    return whole
            else:
                self._through(item, 0)
                found = out.take()
        if found and not self._skip_ok and len(found) < len(self._tensors):
            named = {**self.overflowed, **found}
            if len(named) < len(self._tensors):
                self._mismatch(named)
        return found

    def _forget(self) -> None:
        for out in (self._out, *self._inner):
            out.forget()

    @property
    def overflowed(self) -> dict[str, int]:
        """Number of samples of the last item that were passed to ``overflow``, by tensor."""
        return self._sent if self.is_batched else self._out.overflowed

    def _call(self, stage: Stage, item: Any) -> Any:
        return stage.function(item, *stage.args, **stage.kwargs)

    def _through(self, item: Any, at: int) -> None:
        if at == len(self._first):
            stage = self._last
            if stage.style == "out":
                stage.function(item, self._out, *stage.args, **stage.kwargs)
            else:
                for row in self._returned(self._call(stage, item)):
                    self._out.append(row)
            return
        stage, inner = self._first[at], self._inner[at]
        stage.function(item, inner, *stage.args, **stage.kwargs)
        for made in _row_by_row(inner.take()):
            self._through(made, at + 1)

    def _whole_rows(self, found: Any, names: frozenset[str]) -> WholeRows | None:
        """Return a function's rows if they are few and have all tensors; else add them to the output, return None."""
        rows: list[dict[str, Any]] = []
        nbytes = 0
        returned = self._returned(found)
        for row in returned:
            if type(row) is not dict or row.keys() != names:
                break
            rows.append(row)
            nbytes += sum(map(held_bytes, row.values()))
            if nbytes > self._limit:
                break
        else:
            return WholeRows(rows, nbytes) if rows else None
        for before in rows:
            self._out.append(before)
        if not rows or row is not rows[-1]:
            self._out.append(row)
        for row in returned:
            self._out.append(row)
        return None

    def _returned(self, found: Any) -> Iterator[Mapping[str, Any]]:
        """Yield the rows that a function returned; collect the rows that it left out."""
        if found is None:
            return
        if isinstance(found, Mapping):
            yield _unwrapped(found)
            return
        if isinstance(found, Skipped):
            self.left_out.append(found)
            return
        if isinstance(found, str | bytes) or not hasattr(found, "__iter__"):
            raise _no_row(self._last, found)
        for row in found:
            if type(row) is dict or isinstance(row, Mapping):
                yield _unwrapped(row)
            elif isinstance(row, Skipped):
                self.left_out.append(row)
            else:
                raise _no_row(self._last, row)

    def _batches(self, found: Any) -> Rows:
        """Pass all batches of a generator except the last one to ``overflow``, and return the last one."""
        if not isinstance(found, Iterator):
            return self._batch(found)
        last: Rows = {}
        for batch in found:
            if isinstance(batch, Skipped):
                self.left_out.append(batch)
                continue
            rows = self._batch(batch)
            if last and rows:
                self._overflow(last)
                for name, values in last.items():
                    self._sent[name] = self._sent.get(name, 0) + len(values)
            last = rows or last
        return last

    def _batch(self, found: Any) -> Rows:
        if found is None:
            return {}
        if not isinstance(found, Mapping):
            raise _no_row(self._last, found)
        if any(name not in self._tensors for name in found):
            self._mismatch(found)
        lengths = {name: len(values) for name, values in found.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidTransformDataset(f"the columns of a batch differ in length: {lengths}")
        if not any(lengths.values()):
            return {}
        return found if isinstance(found, RowsOfItems) else dict(found)

    def _mismatch(self, found: Collection[str]) -> None:
        raise TensorMismatchError(
            "One or more of the outputs generated during transform contain different tensors than the ones present in "
            f"the target dataset of transform.\n Tensors in target dataset: {list(self._tensors)}\n Tensors in output "
            f"sample: {list(found)}. If you want to do this, pass skip_ok=True to the eval method."
        )


def _unwrapped(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row in which values of the input row are replaced by their stored form."""
    if not any(type(value) is ValueIn for value in row.values()):
        return row
    return {name: value.stored if type(value) is ValueIn else value for name, value in row.items()}


def _row_by_row(columns: Rows) -> Iterator[RowIn]:
    names = list(columns)
    for values in zip(*columns.values(), strict=True):
        yield RowIn(dict(zip(names, values, strict=True)))


def _no_row(stage: Stage, found: Any) -> TypeError:
    is_batch = stage.style == "batch"
    what = "columns, {tensor: values}" if is_batch else "a row, {tensor: value}, several rows, or None"
    return TypeError(f"{stage.name} returned {type(found).__name__}; a function returns {what}")
