"""One item through the functions of a pipeline: the rows that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lakebed.errors import InvalidTransformDataset, TensorMismatchError
from lakebed.transforms.output import RowIn, SampleOut

Rows = dict[str, Any]
"""Column by tensor: values of as many rows."""

# How a function hands out its rows: it adds them to a second argument, or returns them; of one item, or of a batch.
Style = Literal["out", "return", "batch"]


@dataclass(frozen=True, slots=True)
class Stage:
    """A function with all of its arguments but the first ones."""

    function: Callable[..., Any]
    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    style: Style = "out"


class Stages:
    """Calls functions one after the other.

    Parameters
    ----------
    tensors
        Names of the output's tensors.
    skip_ok
        Rows may leave tensors out.
    """

    def __init__(self, stages: Sequence[Stage], tensors: Collection[str], *, skip_ok: bool) -> None:
        *first, self._last = stages
        self._first = first
        self._tensors = tensors
        self._skip_ok = skip_ok
        self._inner = [SampleOut(None) for _ in first]
        self._out = SampleOut(tensors)
        self.is_batched = self._last.style == "batch"

    def rows(self, item: Any) -> Rows:
        """Return the rows that an item (or a batch) becomes: {tensor: values}; empty if it becomes none.

        Raises
        ------
        InvalidTransformDataset
            If one tensor got more rows than another.
        TensorMismatchError
            If the rows name other tensors than there are.
        Exception
            Whatever a function raises.
        """
        if self._first:
            found = self._through(item, 0)
        elif self._last.style == "out":
            found = self._called(self._last, item, self._out)
        else:
            found = self._returned(item)
        if found and not self._skip_ok and len(found) < len(self._tensors):
            self._mismatch(found)
        return found

    def _called(self, stage: Stage, item: Any, out: SampleOut) -> Rows:
        try:
            stage.function(item, out, *stage.args, **stage.kwargs)
        except BaseException:
            out.forget()
            raise
        return out.take()

    def _through(self, item: Any, at: int) -> Rows:
        if at == len(self._first):
            return self._called(self._last, item, self._out)
        found: Rows = {}
        for row in _row_by_row(self._called(self._first[at], item, self._inner[at])):
            made = self._through(row, at + 1)
            if made and found and made.keys() != found.keys():
                raise InvalidTransformDataset(
                    f"the rows of one item name different tensors: {sorted(found)} and {sorted(made)}"
                )
            for name, values in made.items():
                found.setdefault(name, []).extend(values)
        return found

    def _returned(self, item: Any) -> Rows:
        stage = self._last
        found = stage.function(item, *stage.args, **stage.kwargs)
        if found is None:
            return {}
        if stage.style == "batch":
            return self._batch(found)
        if isinstance(found, Mapping):
            self._out.append(found)
        elif isinstance(found, str | bytes) or not hasattr(found, "__iter__"):
            raise _no_row(stage, found)
        else:
            for row in found:
                if not isinstance(row, Mapping):
                    self._out.forget()
                    raise _no_row(stage, row)
                self._out.append(row)
        return self._out.take()

    def _batch(self, found: Any) -> Rows:
        if not isinstance(found, Mapping):
            raise _no_row(self._last, found)
        unknown = [name for name in found if name not in self._tensors]
        if unknown:
            self._mismatch(found)
        lengths = {name: len(values) for name, values in found.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidTransformDataset(f"the columns of a batch differ in length: {lengths}")
        return dict(found) if any(lengths.values()) else {}

    def _mismatch(self, found: Collection[str]) -> None:
        raise TensorMismatchError(
            "One or more of the outputs generated during transform contain different tensors than the ones present in "
            f"the target dataset of transform.\n Tensors in target dataset: {list(self._tensors)}\n Tensors in output "
            f"sample: {list(found)}. If you want to do this, pass skip_ok=True to the eval method."
        )


def _row_by_row(columns: Rows) -> Iterator[RowIn]:
    names = list(columns)
    for values in zip(*columns.values(), strict=True):
        yield RowIn(dict(zip(names, values, strict=True)))


def _no_row(stage: Stage, found: Any) -> TypeError:
    what = (
        "columns, {tensor: values}"
        if stage.style == "batch"
        else "a row, {tensor: value}, several rows, or None"
    )
    return TypeError(f"{stage.name} returned {type(found).__name__}; a function returns {what}")
