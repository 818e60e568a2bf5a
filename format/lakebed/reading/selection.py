"""A selection of one tensor, read in the forms of the 3.x API: arrays, lists, shapes, bytes, paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import DynamicTensorNumpyError, InvalidInputError, InvalidOperationError
from lakebed.htypes.base import Storing
from lakebed.reading.decode import timestamps
from lakebed.reading.locate import Locating
from lakebed.reading.parts import Subscript, as_rows, ints, object_array, run_of, within
from lakebed.reading.samples import SampleReader
from lakebed.reading.subscripts import Index, Rows

if TYPE_CHECKING:
    from lakebed.reading.sequences import Pick, Spans
    from lakebed.reading.shapes import Extents

Companion = Callable[[str], SampleReader | None]


class Selection:
    """The samples, or parts of samples, that an index selects.

    Parameters
    ----------
    reader
        Flat samples of the tensor.
    companion
        Function that returns the reader of the hidden companion of a kind ("shape", "info", "null"); None if the tensor
        has no such companion.
    pad
        Allow an int, or a list of ints, beyond the end: such rows are empty samples.
    """

    def __init__(
        self, reader: SampleReader, index: Index, companion: Companion, *, pad: bool = False
    ) -> None:
        self.reader = reader
        self.index = index
        self.companion = companion
        self._pad = pad
        self._spans = _spans(reader)

    # -- selected rows ---------------------------------------------------------------------------------------

    @property
    def is_single(self) -> bool:
        """Return whether one row is selected, without the sample axis."""
        return self.index.is_single

    def rows(self) -> Rows:
        """Return the selected row numbers.

        Raises
        ------
        IndexError
            If a row does not exist.
        """
        length = self.reader.state.length
        return self.index.padded_rows(length) if self._pad else self.index.rows(length)

    def flat_rows(self) -> NDArray[np.int64]:
        """Return the flat rows that are selected: the rows themselves, or the picked items of sequences."""
        rows = self.rows()
        if self._spans is None:
            return np.asarray(rows, dtype=np.int64)
        return np.array([item for chosen in self._picks(rows) for item in chosen.items], dtype=np.int64)

    def _picks(self, rows: Rows) -> list[Pick]:
        spans = self._spans
        if spans is None:
            return []
        from lakebed.reading.sequences import pick

        return [pick(first, stop, self.index.inside) for first, stop in spans.spans(rows)]

    def _nulls(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Return a mask of rows with recorded nulls; None if no row has one."""
        reader = self.companion("null")
        if reader is None or not len(rows):
            return None
        wanted = np.asarray(rows, dtype=np.int64)
        known = wanted < reader.state.length
        mask = np.zeros(len(wanted), dtype=np.bool_)
        mask[known] = reader.stacked(wanted[known]).reshape(-1)
        return mask if mask.any() else None

    def null_mask(self) -> NDArray[np.bool_] | None:
        """Return a mask of selected rows that are null: bool, shape (rows,); None if none is null.

        A row is null if a null is recorded for it, or if it is an empty sample among single numbers.
        """
        rows, reader = self.rows(), self.reader
        marks = self._nulls(rows)
        if not reader.is_nullable or reader.is_link or self._spans is not None or not len(rows):
            return marks
        absent = self._extents().table(rows)[:, 0] == 0
        mask = absent if marks is None else absent | marks
        return mask if mask.any() else None

    # -- Python values ---------------------------------------------------------------------------------------

    def values(self, *, recorded: bool = False) -> Iterator[Any]:
        """Yield the value of each row: an array, text, JSON value or list of polygons; for a sequence a list of values.

        Nulls, as `null_mask` defines them, are None; they include empty samples among single numbers.

        Parameters
        ----------
        recorded
            Only recorded nulls are None; an empty sample stays an array with its dtype.
        """
        rows = self.rows()
        nulls = self._nulls(rows) if recorded else self.null_mask()
        if nulls is not None and nulls.all():  # a tensor of nulls may have neither dtype nor rank yet
            yield from [None] * len(nulls)
            return
        for i, value in enumerate(self._values(rows)):
            yield None if nulls is not None and nulls[i] else value

    def _values(self, rows: Rows) -> Iterator[Any]:
        if self._spans is not None:
            yield from self._sequences(rows, self._plain)
            return
        inside = self.index.inside
        if inside and self.reader.storing is Storing.ARRAY:
            yield from self._arrays([int(row) for row in rows], inside)
            return
        for value in self._flat_values(rows):
            yield within(value, inside)

    def _plain(self, rows: Sequence[int], inside: tuple[Subscript, ...]) -> list[Any]:
        """Return flat samples as Python values."""
        if self.reader.storing is Storing.ARRAY:
            return self._arrays(rows, inside)
        return [within(value, inside) for value in self._flat_values(as_rows(rows))]

    def _flat_values(self, rows: Rows) -> Iterator[Any]:
        count = self.reader.state.meta.length
        if not self._pad or not self._is_padded(rows):
            yield from self.reader.values(rows)
            return
        for row in rows:
            yield self.reader.value(int(row)) if row < count else self._padding()

    def _padding(self) -> Any:
        storing = self.reader.storing
        if storing is Storing.TEXT:
            return ""
        if storing in (Storing.JSON, Storing.LIST, Storing.POLYGON):
            return {} if storing is Storing.JSON else []
        return np.empty(
            (0,) * max(1, len(self.reader.state.meta.max_shape)), dtype=self.reader.dtype or np.float64
        )

    def python(self) -> Any:
        """Return the selected value, or a list of values; a recorded null is an empty value of its kind."""
        values = self._values(self.rows())
        return next(values) if self.is_single else list(values)

    # -- arrays ----------------------------------------------------------------------------------------------

    def numpy(self, *, aslist: bool = False) -> Any:
        """Read as an array of shape (rows, ...); a single sample has its own shape.

        Polygons are always returned as lists. Sequences get an axis for their items; with ``aslist`` each sequence is a
        list of its items.

        Raises
        ------
        DynamicTensorNumpyError
            If shapes differ and ``aslist`` is false.
        EmptyTensorError
            If only empty samples were stored so far.
        """
        rows = self.rows()
        if self._spans is not None:
            return self._numpy_of_sequences(rows, aslist=aslist)
        if self.is_single:
            return self._arrays([int(rows[0])], self.index.inside)[0]
        if self.reader.storing is Storing.POLYGON:
            return self._arrays(ints(rows), self.index.inside)
        if aslist:
            return self._arrays(rows, self.index.inside)
        try:
            return self._stacked(rows)
        except DynamicTensorNumpyError as error:
            raise self._told(rows, error) from None

    def _told(self, rows: Rows, error: DynamicTensorNumpyError) -> DynamicTensorNumpyError:
        """Add the number of nulls to the error about samples of several shapes, since they may be its only reason."""
        nulls = self.null_mask()
        if nulls is None:
            return error
        count, first = int(nulls.sum()), int(rows[int(np.argmax(nulls))])
        share = (
            f"{count:,} of {len(rows):,} rows {'is' if count == 1 else 'are'} null, the first is row {first}"
        )
        return DynamicTensorNumpyError(
            f"{error}. {share}: pass masked=True, or fill=... to give them a value"
        )

    def _stacked(self, rows: Rows) -> NDArray[Any]:
        reader, inside = self.reader, self.index.inside
        if not len(rows):
            from lakebed.reading.shapes import part_shape

            dtype = reader.dtype or (object if reader.storing is not Storing.ARRAY else np.float64)
            shape = tuple(reader.state.meta.max_shape)
            return np.empty((0, *(part_shape(shape, inside) if reader.is_fixed else shape)), dtype=dtype)
        if reader.storing is not Storing.ARRAY:
            return self._stacked_objects(rows)
        if self._is_padded(rows) or (inside and not (reader.is_gathered and self.index.is_basic)):
            return reader.stack(self._arrays(rows, inside))
        whole = reader.stacked(rows)
        for subscript in inside:
            whole = whole[(slice(None), *subscript)]
        return whole

    def _stacked_objects(self, rows: Rows) -> NDArray[Any]:
        if self.reader.storing is Storing.TEXT and not self.index.inside:
            return np.array(list(self._flat_values(rows))).reshape(-1, 1)
        return self.reader.stack(self._arrays(rows, self.index.inside))

    def _is_padded(self, rows: Rows) -> bool:
        return self._pad and len(rows) > 0 and int(np.max(rows)) >= self.reader.state.meta.length

    def _arrays(
        self,
        rows: Rows | Sequence[int],
        inside: tuple[Subscript, ...],
    ) -> list[Any]:
        """Return flat samples, or parts of them, one array each (lists for polygons)."""
        if self.reader.storing is not Storing.ARRAY:
            return [self._objects(value, inside) for value in self._flat_values(as_rows(rows))]
        reader = self.reader
        if self._pad and self._is_padded(as_rows(rows)):
            return [within(value, inside) for value in self._flat_values(as_rows(rows))]
        if not inside:
            return [reader.value(int(rows[0]))] if len(rows) == 1 else reader.listed(as_rows(rows))
        if len(rows) == 1 or reader.reads_parts:
            return [within(reader.part(int(row), inside[0]), inside[1:]) for row in rows]
        return [within(array, inside) for array in reader.listed(as_rows(rows))]

    def _objects(self, value: Any, inside: tuple[Subscript, ...]) -> Any:
        """Return one text or JSON value as an array of one item, a list as an array of its items."""
        if self.reader.storing is Storing.POLYGON:
            return within(value, inside)
        return within(object_array(value, self.reader.storing), inside)

    # -- sequences -------------------------------------------------------------------------------------------

    def _sequences(
        self, rows: Rows, read: Callable[[Sequence[int], tuple[Subscript, ...]], list[Any]]
    ) -> Iterator[Any]:
        """Yield the list of items of each row, or the single picked item; all are read at once."""
        picks = self._picks(rows)
        flat = [item for chosen in picks for item in chosen.items]
        items = read(run_of(flat), picks[0].inside) if flat else []
        ends = list(accumulate((len(chosen.items) for chosen in picks), initial=0))
        for chosen, (start, stop) in zip(picks, pairwise(ends), strict=True):
            yield items[start] if chosen.is_single else items[start:stop]

    def _numpy_of_sequences(self, rows: Rows, *, aslist: bool) -> Any:
        if not len(rows):
            return [] if aslist else np.empty(0, dtype=self.reader.dtype or np.float64)
        found = list(self._sequences(rows, self._arrays))
        if self.is_single:
            return found[0] if aslist or not isinstance(found[0], list) else self._joined(found[0])
        if aslist or self.reader.storing is Storing.POLYGON:
            return found
        if isinstance(found[0], list):
            if len({len(items) for items in found}) > 1:
                raise self.reader.dynamic()
            return self.reader.stack([self._joined(items) for items in found])
        return self.reader.stack(found)

    def _joined(self, items: list[Any]) -> Any:
        if self.reader.storing is Storing.POLYGON:
            return items
        if items:
            return self.reader.stack(items)
        rank = max(1, len(self.reader.state.meta.max_shape))
        return np.empty((0,) * (rank + 1), dtype=self.reader.dtype or np.float64)

    # -- shapes ----------------------------------------------------------------------------------------------

    def _extents(self) -> Extents:
        from lakebed.reading.shapes import Extents

        return Extents(self.reader, self.companion("shape"))

    def shape(self) -> tuple[int | None, ...]:
        """Return the number of rows, then the extent of each axis of samples; None where samples differ."""
        rows = self.rows()
        if self.is_single and not self.index.inside and self._spans is None and not self.reader.is_link:
            meta, row = self.reader.state.meta, int(rows[0])
            if row < meta.length and len(meta.max_shape):
                known = tuple(meta.max_shape)
                return known if known == tuple(meta.min_shape) else tuple(map(int, self.reader.shape(row)))
        low, high = self._bounds(rows)
        axes = tuple(a if a == b else None for a, b in zip(low, high, strict=True))
        return axes if self.is_single else (len(rows), *axes)

    def interval(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the smallest and the largest shape, the sample axis included.

        Raises
        ------
        IndexError
            If the index goes inside samples.
        """
        self._check_whole()
        rows = self.rows()
        low, high = self._bounds(rows, recorded=self.index.is_trivial)
        return (len(rows), *low), (len(rows), *high)

    def _check_whole(self) -> None:
        if self.index.inside:
            raise IndexError(
                f"shapes of tensor {self.reader.name!r} exist for whole samples only; "
                "index only its first axis, or use .shape"
            )

    def _bounds(self, rows: Rows, *, recorded: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the smallest and the largest extent per axis, without the sample axis."""
        from lakebed.reading.shapes import bounds

        extents, inside = self._extents(), self.index.inside
        if self._spans is None:
            if self.index.is_trivial and (recorded or extents.is_settled(len(rows))):
                return extents.recorded()
            known = as_rows([int(row) for row in rows if row < self.reader.state.meta.length])
            padded = [(0,) * len(extents.recorded()[0])] if len(known) < len(rows) else []
            return bounds(extents.parts(known, inside) + padded, extents.recorded()[0])
        picks = self._picks(rows)
        counts = [len(chosen.items) for chosen in picks] or [0]
        if self.index.is_trivial and recorded:
            low, high = extents.recorded()
        else:
            flat = run_of([item for chosen in picks for item in chosen.items])
            left = picks[0].inside if picks else ()
            low, high = bounds(extents.parts(as_rows(flat), left), extents.recorded()[0])
        if picks and picks[0].is_single:
            return low, high
        return (min(counts), *low), (max(counts), *high)

    def shapes(self) -> Any:
        """Return the shape of each selected sample: int32, shape (rows, rank).

        Sequences: shape (rows, items, rank), or a list of one array per row if their lengths differ.

        Raises
        ------
        IndexError
            If the index goes inside samples.
        """
        rows = self.rows()
        extents = self._extents()
        if self._spans is None:
            self._check_whole()
            return extents.table(rows).astype(np.int32)
        found = list(
            self._sequences(rows, lambda flat, _: list(extents.table(as_rows(flat)).astype(np.int32)))
        )
        rank = len(extents.recorded()[0])
        tables = [
            np.array(s, dtype=np.int32).reshape(len(s) if isinstance(s, list) else 1, rank) for s in found
        ]
        if not tables:
            return np.empty((0, rank), dtype=np.int32)
        return np.stack(tables) if len({len(table) for table in tables}) == 1 else tables

    # -- files and links -------------------------------------------------------------------------------------

    def tobytes(self) -> bytes:
        """Return the stored bytes of one sample, compressed if samples are; for a link the bytes of the file.

        Raises
        ------
        InvalidInputError
            If more than one sample is selected, or chunks are compressed as a whole.
        NotImplementedError
            If the sample is tiled.
        """
        reader = self.reader
        chosen = self.flat_rows().tolist()
        picks = self._picks(self.rows()) if self._spans is not None else []
        inside = picks[0].inside if picks else self.index.inside if self._spans is None else ()
        if not self.is_single or inside:
            raise InvalidInputError("tobytes() can be used only on exactly 1 sample.")
        if reader.chunk_codec() is not None:
            raise InvalidInputError(
                "Cannot retrieve original bytes for samples in chunk-wise compressed tensors."
            )
        return b"".join(self._bytes(row) for row in chosen if row < reader.state.meta.length)

    def _bytes(self, row: int) -> bytes:
        reader = self.reader
        if reader.is_link:
            if reader.links.is_grid(row):
                raise InvalidInputError("Cannot read bytes for a link_tiled sample; read it as an array.")
            return reader.links.content(row)
        if reader.is_tiled(row):
            raise NotImplementedError(
                f"sample {row} of tensor {reader.name!r} is stored in tiles: tobytes() can not return them; use numpy()"
            )
        return bytes(reader.raw(row, decompress=False)[0])

    def infos(self) -> Any:
        """Return the ``_info`` entries of the samples: a dict for a single one, else a list; None if none exist."""
        reader = self.companion("info")
        if reader is None:
            return None
        known = reader.state.meta.length

        def read(rows: Sequence[int], _: tuple[Subscript, ...] = ()) -> list[Any]:
            there = iter(reader.values(as_rows([row for row in rows if row < known])))
            return [next(there) if row < known else {} for row in rows]

        rows = self.rows()
        found = list(self._sequences(rows, read)) if self._spans is not None else read(ints(rows))
        return found[0] if self.is_single else found

    def timestamps(self) -> NDArray[np.float32]:
        """Return the time of each selected frame of one video, in seconds.

        Raises
        ------
        InvalidOperationError
            If the tensor holds no videos.
        InvalidInputError
            If more than one video is selected.
        """
        reader = self.reader
        codec = reader.decoder.files
        if reader.htype.name != "video" or (codec is None and not reader.is_link):
            raise InvalidOperationError("Only supported for video tensors.")
        chosen = self.flat_rows().tolist()
        if len(chosen) != 1:
            raise InvalidInputError("Only one sample can be selected for timestamps.")
        inside = self._picks(self.rows())[0].inside if self._spans is not None else self.index.inside
        with Locating(reader, chosen[0]):
            first = inside[0][0] if inside else slice(None)
            if reader.is_link and isinstance(first, int | slice):
                found = reader.links.timestamps(chosen[0], first)
                inside = inside[1:]
            elif reader.is_link:
                found = reader.links.timestamps(chosen[0])
            else:
                found = timestamps(reader.raw(chosen[0])[0], codec)
        for subscript in inside:
            found = found[subscript[0]]
        return found

    def paths(self, *, aslist: bool = True) -> Any:
        """Return the addresses of the selected links: arrays of one path, in a list unless a single row is selected.

        Raises
        ------
        InvalidOperationError
            If the tensor holds no links.
        """
        self._check_links()
        rows = self.rows()
        if self._spans is not None:
            found = list(self._sequences(rows, self._paths))
            if self.is_single:
                found = found[0]
                return found if aslist or not isinstance(found, list) else np.array(found)
            return found if aslist else np.array(found)
        listed = self._paths(ints(rows))
        if self.is_single:
            return listed[0]
        return listed if aslist else np.array(listed)

    def _paths(self, rows: Sequence[int], _: tuple[Subscript, ...] = ()) -> list[NDArray[Any]]:
        links = self.reader.links
        return [links.grid(row) if links.is_grid(row) else np.array([links.path(row)]) for row in rows]

    def creds_codes(self) -> Any:
        """Return the code of the credentials of one link (0 for none), or of each link of one sequence.

        Raises
        ------
        InvalidOperationError
            If the tensor holds no links.
        InvalidInputError
            If more than one row is selected.
        """
        self._check_links()
        if not self.is_single:
            raise InvalidInputError("creds_key() can be used only on exactly 1 sample.")
        codes = [self.reader.links.creds_code(row) for row in self.flat_rows().tolist()]
        return codes[0] if self._spans is None or self._picks(self.rows())[0].is_single else codes

    def _check_links(self) -> None:
        if not self.reader.is_link:
            raise InvalidOperationError("Only supported for linked tensors.")


def _spans(reader: SampleReader) -> Spans | None:
    if reader.state.sequence is None:
        return None
    from lakebed.reading.sequences import Spans

    return Spans(reader.state.sequence)
