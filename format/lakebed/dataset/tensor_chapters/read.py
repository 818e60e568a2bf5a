"""Reading of the selected samples, in the forms of the 3.x API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.registry import file_codec, sniff
from lakebed.dataset.base import TensorBase
from lakebed.errors import DynamicTensorNumpyError, InvalidOperationError
from lakebed.htypes.base import Storing
from lakebed.htypes.registry import full_name
from lakebed.reading.locate import Locating
from lakebed.reading.selection import Selection
from lakebed.reading.subscripts import Index

if TYPE_CHECKING:
    from lakebed.documents.tensor_meta import TensorMeta
    from lakebed.links.link import LinkedSample, LinkedTiledSample
    from lakebed.versions.state import TensorState
    from lakebed.writing.encode.encoded import Column

# Settings that determine the stored bytes of a value.
_DECIDING = ("htype", "dtype", "sample_compression", "chunk_compression", "is_sequence", "is_link", "verify")

_UNFILLED: Any = object()  # default of `fill`; None cannot be the default, because it is a value


class ReadMethods(TensorBase):
    """Values of the selected samples."""

    def null_mask(self) -> NDArray[np.bool_] | None:
        """Return which selected samples are null: bool, shape (samples,); None if no sample is null."""
        return self._selection.null_mask()

    def values(self) -> Iterator[Any]:
        """Yield the selected samples; None for samples for which :meth:`null_mask` is True."""
        return self._selection.values()

    @property
    def holds_nothing(self) -> bool:
        """True if only empty samples were ever stored, so that the tensor has no dtype."""
        return (
            self._reader.storing is Storing.ARRAY
            and self._reader.dtype is None
            and not self._state.meta.is_sequence
        )

    @property
    def goes_inside(self) -> bool:
        """True if parts of samples are selected, or items of sequences."""
        return bool(self._index.inside)

    def fits_stored(self, meta: TensorMeta) -> bool:
        """Return whether another tensor would store the selected samples as the same bytes.

        Parameters
        ----------
        meta
            Settings of the other tensor.
        """
        mine = self._state.meta
        return (
            not self._index.inside
            and mine.htype is not None
            and all(getattr(mine, name) == getattr(meta, name) for name in _DECIDING)
            and len(meta.max_shape) in (0, len(mine.max_shape))
        )

    def stored(self, target: TensorState) -> Iterator[Column]:
        """Yield the selected samples as columns for a tensor that :meth:`fits_stored`.

        Parameters
        ----------
        target
            State of the tensor that receives the samples.
        """
        from lakebed.session.changes.copy_samples import Source, columns

        return columns(Source(self._reader, self._companion, self._pad), self._rows(), target)

    def links(self) -> Iterator[Any]:
        """Yield the selected links themselves, not the data to which they refer; for sequences, lists of links."""
        from lakebed.links.link import LinkedSample, LinkedTiledSample

        reader, names = self._reader, self.creds_names()
        links, sequence = reader.links, reader.state.sequence

        def link(row: int) -> LinkedSample | LinkedTiledSample | None:
            key = names(links.creds_code(row))
            if links.is_grid(row):
                return LinkedTiledSample(links.grid(row), key)
            path = links.path(row)
            return LinkedSample(path, key) if path else None

        for row in self._rows():
            yield link(int(row)) if sequence is None else [link(i) for i in range(*sequence.span(int(row)))]

    def creds_names(self) -> Callable[[int], str | None]:
        """Return the function that maps a code of credentials in this dataset to the name of the credentials."""
        return self._session.credentials.names().name_of

    def numpy(
        self,
        aslist: bool = False,
        fetch_chunks: bool = False,
        *,
        fill: Any = _UNFILLED,
        masked: bool = False,
        datetimes: bool = False,
    ) -> Any:
        """Read as an array, shape (samples, ...); a single sample has its own shape.

        Parameters
        ----------
        aslist
            Return a list of arrays, one per sample.
        fetch_chunks
            Accepted for compatibility: whole chunks are read whenever that is cheaper.
        fill
            Replacement for nulls: a number, or a sample. The dtype of the result changes only if it cannot hold
            ``fill``.
        masked
            Return a masked array, whose mask is True for nulls.
        datetimes
            Return dates and times as datetime64 or timedelta64 in their stored unit; NaT for nulls.

        Raises
        ------
        DynamicTensorNumpyError
            If the selected samples differ in shape and ``aslist`` is false; nulls have no shape.
        EmptyTensorError
            If only empty samples were stored so far.
        InvalidInputError
            If no dtype holds both the fill and the values.
        """
        if fill is _UNFILLED and not masked and not datetimes:
            chain = self._index.chain
            if len(chain) == 1 and isinstance(chain[0], int) and not self._pad and not self._index.inside:
                reader = self._reader
                if reader.is_row_a_sample:
                    row, length = chain[0], reader.state.meta.length
                    return reader.value(row if 0 <= row < length else int(self._index.rows(length)[0]))
            return self._selection.numpy(aslist=aslist)
        from lakebed.reading.columns import filled

        given = {} if fill is _UNFILLED else {"fill": fill}
        found = filled.read(self._selection, masked=masked, datetimes=datetimes, **given)
        return list(found) if aslist and not self._index.is_single else found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array: NDArray[Any] = np.asarray(self.numpy())
        return array if dtype is None else array.astype(dtype)

    def text(self, fetch_chunks: bool = False) -> Any:
        """Read text: a str for a single sample, else a list of str; ``""`` for a null.

        Parameters
        ----------
        fetch_chunks
            Accepted for compatibility: whole chunks are read whenever that is cheaper.

        Raises
        ------
        InvalidOperationError
            If the tensor does not hold text.
        """
        return self._typed(Storing.TEXT, "text")

    def dict(self, fetch_chunks: bool = False) -> Any:
        """Read JSON values: one for a single sample, else a list; ``{}`` for a null.

        Parameters
        ----------
        fetch_chunks
            Accepted for compatibility: whole chunks are read whenever that is cheaper.

        Raises
        ------
        InvalidOperationError
            If the tensor does not hold JSON.
        """
        return self._typed(Storing.JSON, "json")

    def list(self, fetch_chunks: bool = False) -> Any:
        """Read lists: one for a single sample, else a list of lists; ``[]`` for a null.

        Parameters
        ----------
        fetch_chunks
            Accepted for compatibility: whole chunks are read whenever that is cheaper.

        Raises
        ------
        InvalidOperationError
            If the tensor's htype is neither list nor tag, and its values do not come from Arrow lists.
        """
        if self._reader.came_as_list:
            values: list[Any] = [[] if v is None else v.tolist() for v in self.values()]
            return values[0] if self._index.is_single else values
        return self._typed(Storing.LIST, "list and tag")

    def _typed(self, storing: Storing, what: str) -> Any:
        if self._reader.storing is not storing:
            meta = self._state.meta
            htype = full_name(meta.htype, is_sequence=meta.is_sequence, is_link=meta.is_link)
            raise InvalidOperationError(
                f"Only supported for {what} tensors; tensor {self._name!r} has htype {htype}"
            )
        return self._selection.python()

    def data(self, aslist: bool = False, fetch_chunks: bool = False) -> Any:
        """Read in the form that suits the htype, usually under the key ``value``.

        Text, json and list return Python values; numbers with a logical type dates and times. Class labels also return
        their names under ``text``, videos return ``frames`` and ``timestamps``, images and scans ``sample_info``, point
        clouds and meshes their fields by name (several samples as a list). A null is the empty sample of its kind, and
        None among dates and times; see :meth:`null_mask`.

        Parameters
        ----------
        aslist
            Return lists of samples instead of arrays.
        fetch_chunks
            Accepted for compatibility: whole chunks are read whenever that is cheaper.
        """
        from lakebed.htypes import forms

        reader = self._reader
        if reader.storing is Storing.ARRAY and "logical_type" in reader.state.info and not self._index.inside:
            from lakebed.session.row_values import moments_of

            if (as_moments := moments_of(reader)) is not None:
                moments = as_moments(list(self.values()))
                return {"value": moments[0] if self._index.is_single else moments}
        parts = forms.parts_of(reader.state.meta)
        fields = self._fields() if forms.FIELDS in parts else None
        if reader.storing in (Storing.TEXT, Storing.JSON, Storing.LIST):
            value = self._selection.python()
        elif fields is not None:
            value = self._even() if forms.INFOS in parts else None
        else:
            value = self.numpy(aslist=aslist)
        return forms.data_form(
            reader.state.meta,
            reader.state.info,
            value,
            infos=self._selection.infos() if forms.INFOS in parts else None,
            timestamps=self._times(aslist) if forms.TIMESTAMPS in parts else None,
            fields=fields,
        )

    def _even(self) -> Any:
        """Read as one array if the shapes agree, else as a list."""
        try:
            return self.numpy()
        except DynamicTensorNumpyError:
            return self.numpy(aslist=True)

    def _times(self, aslist: bool) -> Any:
        """Return the timestamps of each selected video, as one array if they are equally long."""
        if self._index.is_single or self._state.meta.is_sequence:
            return np.atleast_1d(self.timestamps)
        rows, inside = self._selection.rows(), self._index.inside
        found = [
            np.atleast_1d(Selection(self._reader, Index((int(row),), inside), self._companion).timestamps())
            for row in rows
        ]
        return found if aslist or len({len(times) for times in found}) > 1 else np.array(found)

    def _fields(self) -> Any:
        """Return the named fields of each selected point cloud or mesh, or of a single one.

        None if a link leads to a file without fields.
        """
        reader = self._reader
        codec: Any = file_codec(reader.state.meta.sample_compression)
        found = []
        for row in self._selection.flat_rows().tolist():
            with Locating(reader, row):
                if reader.is_link:
                    data: Any = reader.links.content(row)
                    codec = file_codec(sniff(data, reader.links.path(row)))
                    if not hasattr(codec, "fields"):
                        return None
                else:
                    data = reader.raw(row)[0]
                found.append(self._selected_points(codec.fields(data) if len(data) else {}))
        return found[0] if self._index.is_single and not self._state.meta.is_sequence else found

    def _selected_points(self, fields: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Apply subscripts inside samples to the points of a cloud."""
        if self._reader.state.meta.htype != "point_cloud" or self._state.meta.is_sequence:
            return fields
        for subscript in self._index.inside:
            fields = {name: values[subscript[0]] for name, values in fields.items()}
        return fields

    def tobytes(self) -> bytes:
        """Return the stored bytes of one sample, which are compressed if the tensor has a sample compression.

        Raises
        ------
        ValueError
            If more than one sample is selected, or chunks are compressed as a whole.
        NotImplementedError
            If the sample is tiled.
        """
        return self._selection.tobytes()

    @property
    def timestamps(self) -> NDArray[np.float32]:
        """Time of each selected frame of one video, in seconds.

        Raises
        ------
        InvalidOperationError
            If the tensor holds no videos.
        ValueError
            If more than one video is selected.
        """
        return self._selection.timestamps()

    def path(self, aslist: bool = True, fetch_chunks: bool = False) -> Any:
        """Return the addresses of the selected links.

        Parameters
        ----------
        aslist
            Return a list instead of an array.
        fetch_chunks
            Accepted for compatibility: whole chunks are read whenever that is cheaper.

        Raises
        ------
        InvalidOperationError
            If the tensor holds no links.
        """
        return self._selection.paths(aslist=aslist)

    def creds_key(self) -> Any:
        """Return the name of the credentials of one link, or of each link of one sequence.

        None for links without credentials.

        Raises
        ------
        InvalidOperationError
            If the tensor holds no links.
        ValueError
            If more than one sample is selected.
        """
        codes = self._selection.creds_codes()
        names = self._session.credentials.names()
        if isinstance(codes, Sequence):
            return [names.name_of(code) for code in codes]
        return names.name_of(codes)

    def play(self) -> Any:
        """Play one video or sound in the viewer: ``ds.videos[0].play()``; see ``Dataset.visualize``.

        Returns
        -------
        In a notebook, the frame; else the address that was opened in the browser.

        Raises
        ------
        InvalidOperationError
            If the tensor holds neither videos nor sounds, or the number of selected samples is not one.
        """
        if self._state.meta.htype not in ("video", "audio"):
            raise InvalidOperationError("Only supported for video and audio tensors.")
        if not self._index.is_single:
            raise InvalidOperationError(f"play() takes one sample: {self._name}[0].play()")
        from lakebed.dataset.display.viewing import visualize

        return visualize(self._handle, {"primary": self._name, "row": int(self._rows()[0])})
