"""Display of datasets and tensors: text, HTML and completion in notebooks, and images drawn by Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakebed.dataset.base import DatasetBase, TensorBase
from lakebed.errors import InvalidOperationError, LakebedError
from lakebed.htypes.base import Storing

if TYPE_CHECKING:
    from PIL.Image import Image

_OF_3X = frozenset(
    """allow_delete client fix_vc is_optimized maybe_flush no_view_dataset org_id public set_token token username
    verbose""".split()
)
_INSIDE = frozenset(
    """base_htype blank creds_names fits_stored goes_inside holds_nothing links pad_tensor recorded_values
    stored""".split()
)


class ShowMethods(DatasetBase):
    """Display of a dataset."""

    def __repr__(self) -> str:
        from lakebed.dataset.display import showing

        try:
            return showing.view_text(self)
        except LakebedError:  # for example, the view is outdated, or the version was removed
            return str(self)

    def _repr_html_(self) -> str:
        from lakebed.dataset.display import showing

        return showing.dataset_html(self)

    def _ipython_key_completions_(self) -> list[str]:
        meta = self._session.structure().meta
        groups = [name for name in meta.groups if self._group == "" or name.startswith(f"{self._group}/")]
        inside = len(self._group) + 1 if self._group else 0
        return sorted({*self._names(), *(name[inside:] for name in groups if name[inside:])})

    def __dir__(self) -> list[str]:
        known = [name for name in super().__dir__() if not _is_hidden(name, _OF_3X)]
        from lakebed.verbs.dataset import DatasetVerbs

        verbs = [name for name in dir(DatasetVerbs) if not name.startswith("_")]
        return sorted({*known, "data", "map", "plot", "rows", *verbs, *self._names()})

    def _plot(
        self,
        image: str | None = None,
        tensors: Sequence[str] | None = None,
        *,
        rows: int = 8,
        width: int = 320,
    ) -> Image:
        """Draw the images of the first rows with their boxes, masks and labels; see :func:`lakebed.show`.

        Parameters
        ----------
        image, tensors, rows, width
            As for :func:`lakebed.show`.

        Returns
        -------
        An image of Pillow.
        """
        from lakebed.dataset.display.drawing import show

        return show(self, image, tensors, rows=rows, width=width)


class TensorShowMethods(TensorBase):
    """Display of a tensor."""

    def __repr__(self) -> str:
        from lakebed.dataset.display import showing

        try:
            return showing.tensor_text(self)
        except (LakebedError, IndexError):  # for example, the tensor or row was removed
            return str(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from lakebed.dataset.display import showing

        return showing.mime_bundle(self)

    def __dir__(self) -> list[str]:
        from lakebed.verbs.values import ColumnVerbs

        names = {*super().__dir__(), *dir(ColumnVerbs)}
        return sorted(name for name in names if not _is_hidden(name, _INSIDE))

    def pil(self) -> Image:
        """Return one image or mask as an image of Pillow: ``ds[0].image.pil()``.

        Returns
        -------
        The image; masks are white on black, segments in colours.

        Raises
        ------
        InvalidOperationError
            If several samples are selected, or the sample is null or not an image.
        """
        from lakebed.dataset.display.drawing import picture

        if not self._index.is_single:
            raise InvalidOperationError(
                f"pil() takes one sample: {self._name}[0].pil(); lakebed.show(...) draws several"
            )
        if self._reader.storing is not Storing.ARRAY or self._state.meta.is_sequence:
            raise InvalidOperationError(f"tensor {self._name!r} holds no images")
        value = next(iter(self._selection.values()))
        if value is None:
            raise InvalidOperationError(f"the sample of tensor {self._name!r} is null")
        return picture(value, self._state.meta.htype)


def _is_hidden(name: str, more: frozenset[str]) -> bool:
    return name in more or (name.startswith("_") and not name.startswith("__"))
