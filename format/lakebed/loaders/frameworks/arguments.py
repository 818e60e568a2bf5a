"""Arguments of Deep Lake 3.x translated: rows, options of `Loader`, and the conversion of samples."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed.errors import EmptyTensorError, InvalidInputError
from lakebed.errors.root import unexpected
from lakebed.htypes.base import Storing
from lakebed.loaders.frameworks.samples import AsSample
from lakebed.loaders.loader import Loader
from lakebed.loaders.recognition import PerTensor, Steps, recognised

if TYPE_CHECKING:
    from lakebed.session.table import Table

Transform = Callable[[Any], Any] | Mapping[str, Any]

MEGABYTE = 1_000_000

# Decode method of 3.x -> decode method of lakebed.
_METHODS = {"numpy": "numpy", "tobytes": "bytes", "pil": "pil", "data": "numpy"}


# Arguments of 3.x, or of PyTorch's DataLoader, that do not change any batch and are ignored.
_WITHOUT_EFFECT = frozenset(
    {"persistent_workers", "prefetch_factor", "timeout", "multiprocessing_context", "num_threads", "verbose"}
)


def check_known(method: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse arguments that a method does not have.

    Raises
    ------
    TypeError
        If an argument is unknown; the message suggests a similar argument, or lists all arguments.
    """
    names = (set(known) | _WITHOUT_EFFECT) - {"return", "kwargs"}
    for name in given:
        if name not in _WITHOUT_EFFECT:
            raise unexpected(method, name, names)


@dataclass(frozen=True, slots=True)
class Source:
    """Rows, options of reading, and the conversion of samples: loaders are made from these, in other processes too.

    Attributes
    ----------
    rows
        A dataset, a view, or a table.
    options
        Arguments of `Loader`.
    sample
        Conversion of samples.
    """

    rows: Any
    options: Mapping[str, Any]
    sample: AsSample

    def samples(self, batch_size: int | None, **more: Any) -> Loader:
        """Return a loader whose batches are ``{"samples": [Whole, ...]}``."""
        options = {**self.options, **more, "transform": self.sample, "return_index": True}
        return Loader(self.rows, batch_size, **options)

    def batches(self, batch_size: int | None, **more: Any) -> Loader:
        """Return a loader of whole batches of unchanged samples."""
        return Loader(self.rows, batch_size, **{**self.options, **more}, return_index=self.sample.with_index)

    @property
    def is_plain(self) -> bool:
        """Whether samples are passed on unchanged."""
        return self.sample.function is None and not self.sample.late

    def using(self, **options: Any) -> Source:
        """Return a copy with some arguments of `Loader` replaced."""
        return replace(self, options={**self.options, **options})


def source_of(
    table: Table,
    whole: Callable[[], Any],
    transform: Transform | None,
    transform_kwargs: Mapping[str, Any] | None,
    decode_method: Mapping[str, str] | None,
    *,
    return_index: bool,
    buffer_size: float | None = None,
    is_padded: bool = False,
    is_plain: bool = False,
    is_widened: bool = True,
    **options: Any,
) -> Source:
    """Return the source of loaders.

    Parameters
    ----------
    table
        The requested rows and tensors.
    whole
        Returns the dataset with all of its rows, and empty samples where a tensor is shorter.
    transform, transform_kwargs, decode_method, return_index, buffer_size, is_padded
        As in ``Dataset.pytorch``.
    is_plain, is_widened
        As in `AsSample`.
    **options
        Arguments of `Loader`.
    """
    methods = dict(decode_method or {})
    _check(table, methods)
    function: Callable[[Any], Any] | None = None
    if isinstance(transform, Mapping):
        return_index = "index" in transform
        options["operations"], left = _declared(table, transform, methods)
        function = PerTensor(left) if any(left.values()) else None
    elif transform is not None:
        function = functools.partial(transform, **transform_kwargs) if transform_kwargs else transform
    late: dict[str, Callable[[int], Any]] = {
        name: _Late(whole(), name, is_data=True) for name, method in methods.items() if method == "data"
    }
    names = tuple(table.names)
    storing = {name: table.reader(name).storing for name in names}
    if is_padded:
        lengths = {name: state.length for name, state in table.states().items()}
        short = [name for name in names if lengths[name] < table.longest]
        late |= {name: late.get(name) or _Late(whole(), name) for name in short}
        table = table.only([name for name in names if name not in short])
    if buffer_size is not None:
        options["window"] = _window(buffer_size)
    sample = AsSample(names, storing, late, return_index, function, is_widened=is_widened, is_plain=is_plain)
    decode = {name: _METHODS[method] for name, method in methods.items() if name in table.names}
    return Source(table, {**options, "decode": decode}, sample)


def _declared(
    table: Table, functions: Mapping[str, Callable[[Any], Any] | None], methods: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Callable[[Any], Any] | None]]:
    """Split the function of each tensor into its leading operations and the remaining function.

    Operations are those of `lakebed.loaders.ops` and of torchvision on images of 8 bits: only their output is decoded.
    If a tensor has such operations, it is not decoded as a PIL image even if ``pil`` was requested, and its entry in
    `methods` is removed.
    """
    found: dict[str, Any] = {}
    left = dict(functions)
    for name, function in functions.items():
        method = methods.get(name, "numpy")
        is_declarable = function is not None and name != "index" and method in ("numpy", "pil")
        if not is_declarable or not _has_bytes(table, name):
            continue
        told = recognised(function)
        if not told.operations.operations or (method == "pil" and told.rest and told.given == "array"):
            continue
        methods.pop(name, None)
        found[name] = told.operations
        left[name] = Steps(told.rest, told.given) if told.rest else None
    return found, left


def _has_bytes(table: Table, name: str) -> bool:
    state, reader = table.state(name), table.reader(name)
    is_even = not table.index.inside and state.sequence is None
    return is_even and reader.dtype == np.uint8 and len(state.meta.max_shape) in (2, 3)


@dataclass(frozen=True, slots=True)
class _Late:
    """Reader of single samples of one tensor by row; rows beyond the tensor's end are empty samples."""

    dataset: Any
    name: str
    is_data: bool = False

    def __call__(self, row: int) -> Any:
        tensor = self.dataset[row][self.name]
        return tensor.data() if self.is_data else tensor.numpy()


def _check(table: Table, methods: Mapping[str, str]) -> None:
    """Refuse tensors without samples, and decode methods that do not fit their tensor.

    Raises
    ------
    EmptyTensorError, InvalidInputError
        If a tensor is empty, a method is given for an unknown tensor, or a method does not fit its tensor.
    """
    for name, state in table.states().items():
        if not state.length:
            raise EmptyTensorError(
                f"tensor {name!r} holds no samples: append some, or leave it out with tensors="
            )
    for name, method in methods.items():
        if name not in table.names:
            raise InvalidInputError(
                f"decode_method names the tensor {name!r}, which the loader does not read"
            )
        known = ["data", "numpy"]
        reader = table.reader(name)
        if reader.storing in (Storing.ARRAY, Storing.TEXT):
            known.append("tobytes")
        if reader.decoder.traits.kind == "image":
            known.append("pil")
        if method not in known:
            raise InvalidInputError(
                f"tensor {name!r} supports the decode methods {', '.join(sorted(known))}, not {method!r}"
            )


def _window(megabytes: float) -> int:
    if megabytes < 0:
        raise InvalidInputError(f"buffer_size must be a number of megabytes, not {megabytes}")
    return max(1, int(megabytes * MEGABYTE))
