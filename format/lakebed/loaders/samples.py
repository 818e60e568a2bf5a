"""What adapters to frameworks hand out: samples and batches as Deep Lake 3.x names and shapes them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from lakebed.errors import InvalidInputError, ModuleNotInstalledException
from lakebed.htypes.base import Storing
from lakebed.loaders.collate import collate
from lakebed.loaders.loader import Loader, Steps
from lakebed.loaders.recognition import recognised

if TYPE_CHECKING:
    from lakebed.session.table import Table

# Frameworks have few operations on unsigned integers; Deep Lake 3.x hands PyTorch the next signed ones.
WIDER = {"uint16": np.int32, "uint32": np.int64, "uint64": np.int64}


class Fields(dict[str, Any]):
    """Values by name of the tensor: a sample or a batch. Iterated, it yields the values, not the names.

    Examples
    --------
    >>> images, labels = Fields(images=[1, 2], labels=[0, 1])
    >>> labels
    [0, 1]
    """

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())


@dataclass(frozen=True, slots=True)
class Whole:
    """A sample, or what a transform made of it, which a loader passes on as it is."""

    value: Any


@dataclass(frozen=True, slots=True)
class AsSample:
    """Makes what a loader reads of a row the sample that 3.x hands to transforms; called on threads of the loader.

    Attributes
    ----------
    names
        Tensors in their order.
    storing
        How each stores its samples: text, json and lists become arrays, as ``numpy()`` gives them.
    late
        Tensors that are read by row number, because batches cannot hold them: others than rows of `names`.
    with_index
        Whether the row number comes last, as ``index``.
    function
        The user's transform.
    is_widened
        Whether unsigned integers become signed ones.
    is_plain
        Whether samples are plain dictionaries with text and Python values, which other loaders know, too.
    """

    names: tuple[str, ...]
    storing: Mapping[str, Storing]
    late: Mapping[str, Callable[[int], Any]] = field(default_factory=dict)
    with_index: bool = True
    function: Callable[[Any], Any] | None = None
    is_widened: bool = True
    is_plain: bool = False

    def __call__(self, read: Mapping[str, Any]) -> Whole:
        """Return the sample, transformed."""
        sample: dict[str, Any] = {} if self.is_plain else Fields()
        for name in self.names:
            late = self.late.get(name)
            if late is not None:
                sample[name] = self.value(late(int(read["index"][0])))
            else:
                sample[name] = self.value(
                    read[name] if self.is_plain else as_array(read[name], self.storing[name])
                )
        if self.with_index:
            sample["index"] = read["index"]
        return Whole(sample if self.function is None else self.function(sample))

    def value(self, value: Any) -> Any:
        """Return an array of integers that the framework knows."""
        wider = WIDER.get(value.dtype.name) if self.is_widened and isinstance(value, np.ndarray) else None
        return value if wider is None else value.astype(wider)


def as_array(value: Any, storing: Storing) -> Any:
    """Return text, json or a list as the array that ``numpy()`` of its sample is; anything else as it is."""
    if storing in (Storing.ARRAY, Storing.POLYGON) or isinstance(value, np.ndarray | bytes):
        return value
    if storing is Storing.TEXT:  # of sequences, lists of texts
        return np.array([value]) if isinstance(value, str) else value
    items = value if storing is Storing.LIST and isinstance(value, list) else [value]
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


@dataclass(frozen=True, slots=True)
class Source:
    """Rows, how they are read, and what becomes of a sample; loaders are made of it, in other processes too.

    Attributes
    ----------
    rows
        A dataset, a view, or a table.
    options
        Arguments of `Loader`.
    sample
        What becomes of a sample.
    """

    rows: Any
    options: Mapping[str, Any]
    sample: AsSample

    def samples(self, batch_size: int | None, **more: Any) -> Loader:
        """Return a loader whose batches are ``{"samples": [Whole, ...]}``."""
        options = {**self.options, **more, "transform": self.sample, "return_index": True}
        return Loader(self.rows, batch_size, **options)

    def batches(self, batch_size: int | None, **more: Any) -> Loader:
        """Return a loader of whole batches, of samples that nothing changes."""
        return Loader(self.rows, batch_size, **{**self.options, **more}, return_index=self.sample.with_index)

    @property
    def is_plain(self) -> bool:
        """Whether samples come as they are read."""
        return self.sample.function is None and not self.sample.late

    def using(self, **options: Any) -> Source:
        """Return the same with some arguments of `Loader` replaced."""
        return replace(self, options={**self.options, **options})


@dataclass(frozen=True, slots=True)
class PerTensor:
    """Changes each tensor by a function of its own; None leaves it."""

    functions: Mapping[str, Callable[[Any], Any] | None]

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        """Return what the functions make of a sample."""
        return type(sample)(
            (name, sample[name] if function is None else function(sample[name]))
            for name, function in self.functions.items()
        )


def declared(
    table: Table, functions: Mapping[str, Callable[[Any], Any] | None], methods: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Callable[[Any], Any] | None]]:
    """Tell the operations that functions of tensors begin with, and the functions that are left.

    Operations are those of `lakebed.loaders.ops` and of torchvision on images of 8 bits: only what comes out of them is
    decoded. A tensor that was to be decoded as ``pil`` for them is not; its entry in `methods` goes.
    """
    found: dict[str, Any] = {}
    left = dict(functions)
    for name, function in functions.items():
        method = methods.get(name, "numpy")
        if (
            function is None
            or name == "index"
            or method not in ("numpy", "pil")
            or not _has_bytes(table, name)
        ):
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


class Passes:
    """What loaders of frameworks leave to the `Loader` that makes their batches."""

    loader: Loader
    framework: ClassVar[str]
    """The method of ``ds.dataloader()`` that returns such loaders."""

    def __len__(self) -> int:
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be a certain epoch; without it, each pass is the next one."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return where the loader is; see ``lakebed.Loader.state_dict``."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another loader was; see ``lakebed.Loader.load_state_dict``."""
        self.loader.load_state_dict(state)

    def stats(self) -> Mapping[str, Any]:
        """Return what was done; see ``lakebed.Loader.stats``."""
        return self.loader.stats()

    def close(self) -> None:
        """End an iteration that is under way."""
        self.loader.close()

    def pytorch(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse, as 3.x does: the loader is one of a framework already."""
        self._refuse("pytorch")

    def tensorflow(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse, as 3.x does: the loader is one of a framework already."""
        self._refuse("tensorflow")

    def numpy(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse, as 3.x does: the loader is one of a framework already."""
        self._refuse("numpy")

    def _refuse(self, name: str) -> NoReturn:
        if name == self.framework:
            raise InvalidInputError(f"already called .{name}()")
        raise InvalidInputError(f"Can't call .{name}() after .{self.framework}()")


class NumpyLoader(Passes):
    """Batches of NumPy arrays, as `Fields`; what `collate_fn` makes of a list of samples, where it is given."""

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


def columns_of(samples: Sequence[Any]) -> dict[str, list[Any]] | None:
    """Return the values of samples by name; None if they are no `Fields`."""
    if not all(isinstance(sample, Fields) for sample in samples):
        return None
    return {name: [sample[name] for sample in samples] for name in samples[0].keys()}  # noqa: SIM118 - see Fields


def adapter(name: str) -> Any:
    """Return the module of `lakebed.loaders` that knows a framework: torch, tensorflow or jax.

    Raises
    ------
    ModuleNotInstalledException
        If the framework is not installed.
    """
    try:
        return importlib.import_module(f"lakebed.loaders.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != name:
            raise
        title = {"torch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX"}[name]
        raise ModuleNotInstalledException(
            f"{title} is needed for this and is not installed: pip install {name}, or, in a checkout, "
            f"pip install '.[{name}]'"
        ) from error
