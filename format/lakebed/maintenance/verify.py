"""Verification of a dataset: documents, chunk files and their checksums, and optionally every sample."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lakebed.chunks.chunk import parse_chunk
from lakebed.chunks.image_chunk import ImageChunkCodec
from lakebed.documents.indexes.pages import key_of
from lakebed.documents.layouts import sample_sum
from lakebed.documents.version_tree import VersionTree
from lakebed.errors import (
    CorruptError,
    DatasetCorruptError,
    EmptyTensorError,
    FormatError,
    LakebedError,
    LimitError,
    StorageError,
)
from lakebed.maintenance.check import CheckedVersion, Damage, DocumentCheck, Findings
from lakebed.reading.fetch import ChunkSource
from lakebed.reading.open_chunk import described
from lakebed.reading.samples import SampleReader
from lakebed.storage.base import Storage
from lakebed.versions.chunk_table import ChunkTable
from lakebed.versions.opening import TREE_KEY, TreeAt, read_tree_at
from lakebed.versions.paged import PagedTable
from lakebed.versions.refs import resolve
from lakebed.versions.state import TensorState

_CACHE = 64_000_000


def verify(storage: Storage, ref: str | None = None, *, deep: bool = False) -> Findings:
    """Read a dataset and report its damage.

    Without checksums, as in datasets that Deep Lake 3.x wrote last, damage within raw arrays is not detected.

    Parameters
    ----------
    ref
        Branch or version; all versions if None.
    deep
        Also decode every sample. Links are not followed.

    Raises
    ------
    DatasetNotFoundError, CheckoutError, StorageError
        If the dataset or version does not exist, or the storage fails.
    """
    findings = Findings(storage.url, deep)
    try:
        tree = read_whole_tree(storage).tree
    except (CorruptError, LimitError) as error:
        findings.damage.append(Damage(str(error), key=TREE_KEY, kind="tree"))
        return findings
    check = Check(storage, tree, findings)
    chosen = None if ref is None else resolve(storage, tree, ref)
    check.documents.shared_files()
    for version_id in check.documents.history(chosen):
        check.version(version_id)
    return findings


def read_whole_tree(storage: Storage) -> TreeAt:
    """Read the version tree with all its versions, checked; see `lakebed.versions.opening.read_tree`."""
    at = read_tree_at(storage)
    try:
        return TreeAt(VersionTree.from_bytes(storage.get(TREE_KEY)), at.etag)
    except FormatError as error:
        message = f"{TREE_KEY} of {storage.url} is damaged: {error}"
        raise DatasetCorruptError(message, dataset=storage.url) from error


class Check:
    """Verification of the versions of one dataset, and of their common files, which are checked once."""

    def __init__(self, storage: Storage, tree: VersionTree, findings: Findings) -> None:
        self.documents = DocumentCheck(storage, tree, findings)
        self._chunks = _ChunkCheck(storage, findings)

    def version(self, version_id: str) -> None:
        """Check documents and chunks of a version."""
        version = self.documents.version(version_id)
        if version is not None:
            for key, state in version.tensors.items():
                self._chunks.tensor(version, version.names.get(key, key), state)


class _ChunkCheck:
    """Verification of chunk files, each of which is checked once, however many versions share it."""

    def __init__(self, storage: Storage, findings: Findings) -> None:
        self._source = ChunkSource(storage, _CACHE, {})
        self._findings = findings
        self._seen: dict[tuple[object, ...], str | None] = {}

    def tensor(self, version: CheckedVersion, name: str, state: TensorState) -> None:
        """Check the chunks of one tensor of one version."""
        reader = SampleReader(name, state, self._source)
        for ordinals in self._samples(version, reader):
            errors = [self._chunk(reader, ordinal) for ordinal in ordinals]
            first = state.table.first(ordinals[0])
            last = min(first + state.table.samples(ordinals[0]), state.meta.length) - 1
            for ordinal, error in zip(ordinals, errors, strict=True):
                if error:
                    self._damaged(version, reader, (first, last), error, state.table.key(ordinal))
            if self._findings.deep and not any(errors) and first <= last:
                self._decode(version, reader, ordinals, range(first, last + 1))

    def _samples(self, version: CheckedVersion, reader: SampleReader) -> Iterator[range]:
        """Group the rows of the chunk table: rows of the tiles of one sample together, others alone.

        Rows in damaged pages are reported, and left out.
        """
        table, length = reader.state.table, reader.state.meta.length
        end = 0
        damaged = table.tree.damaged() if isinstance(table, PagedTable) else iter(())
        for row, sample, entry, error in damaged:
            yield from _grouped(table, range(end, row), length)
            end = row + int(entry["rows"])
            rows = sample, sample + int(entry["samples"]) - 1
            self._damaged(version, reader, rows, str(error), key_of(entry))
        yield from _grouped(table, range(end, len(table)), length)

    def _chunk(self, reader: SampleReader, ordinal: int) -> str | None:
        """Check one chunk file; return its damage, or None."""
        table = reader.state.table
        identity = (
            table.key(ordinal),
            table.samples(ordinal),
            table.sums(ordinal).tobytes(),
            *_settings(reader),
        )
        if identity not in self._seen:
            self._findings.chunks += 1
            self._seen[identity] = self._file(reader, ordinal)
        return self._seen[identity]

    def _file(self, reader: SampleReader, ordinal: int) -> str | None:
        table = reader.state.table
        try:
            codec = reader.chunk_codec()
            # Chunks compressed as images are only decoded in a deep check, together with their samples.
            codec = None if isinstance(codec, ImageChunkCodec) else codec
            chunk = parse_chunk(self._source.file(table, ordinal), table.samples(ordinal) or 1, codec)
            sizes = np.diff(chunk.offsets())
            layout = described(table, ordinal, frozenset()).layout
            if layout is not None and not np.array_equal(np.diff(layout.starts), sizes):
                return f"chunk {table.key(ordinal)}: its sample positions differ from the manifest"
            sums = () if layout is None or layout.sums is None else layout.sums.tolist()
            for number, wanted in enumerate(sums):
                if sample_sum(chunk.sample(number)) != wanted:
                    return f"chunk {table.key(ordinal)}: the checksum of sample {number} differs from the manifest"
        except (FormatError, LimitError, StorageError) as error:
            return str(error)
        finally:
            self._source.clear()
        return None

    def _decode(self, version: CheckedVersion, reader: SampleReader, ordinals: range, rows: range) -> None:
        """Decode the samples of one chunk, or the tiled sample of several chunks; report adjacent damage together."""
        state = reader.state
        keys = tuple(state.table.key(ordinal) for ordinal in ordinals)
        identity = ("samples", keys, len(rows), *_settings(reader))
        if identity in self._seen:
            return
        self._seen[identity] = None
        if decodes(reader, rows):
            self._findings.samples += len(rows)
            return
        # Runs of damaged samples: first and last sample, and the error of the first.
        broken: list[tuple[int, int, str]] = []
        for row in rows:
            self._findings.samples += 1
            error = self._sample(version, reader, row)
            if error is None:
                continue
            if broken and broken[-1][1] == row - 1:
                broken[-1] = broken[-1][0], row, broken[-1][2]
            else:
                broken.append((row, row, error))
        for first, last, error in broken:
            self._damaged(version, reader, (first, last), error, keys[0])

    def _sample(self, version: CheckedVersion, reader: SampleReader, row: int) -> str | None:
        """Decode one sample; return its damage, or None."""
        try:
            return damage(reader, row)
        except LakebedError as error:
            self._undecoded(version, reader, row, str(error))
        return None

    def _undecoded(self, version: CheckedVersion, reader: SampleReader, row: int, message: str) -> None:
        """Add a note, once per tensor, that its samples were not decoded, for example because a package is missing."""
        identity = ("undecoded", reader.state.key, message)
        if identity not in self._seen:
            self._seen[identity] = None
            node = version.node
            self._findings.notes.append(Damage(message, node.id, node.branch, reader.name, (row, row)))

    def _damaged(
        self, version: CheckedVersion, reader: SampleReader, flat: tuple[int, int], message: str, key: str
    ) -> None:
        state, node = reader.state, version.node
        rows = flat if state.sequence is None else _sequences(state, flat)
        self._findings.damage.append(Damage(message, node.id, node.branch, reader.name, rows, key))


def decodes(reader: SampleReader, rows: range) -> bool:
    """Decode the samples of one chunk together; False if a sample fails, or for tiles, which are decoded one by one."""
    try:
        if reader.is_tiled(rows[0]):
            return False
        if reader.is_gathered:
            reader.stacked(rows)
        else:
            for _ in reader.many(rows) if reader.is_link else reader.values(rows):
                pass
    except LakebedError:
        return False
    finally:
        reader.source.clear()
    return True


def _grouped(table: ChunkTable, rows: range, length: int) -> Iterator[range]:
    end = rows.start
    while end < rows.stop and table.first(end) < length:
        start, end = end, end + 1
        while end < rows.stop and not table.samples(end):
            end += 1
        # These rows are one chunk of samples, or the tiles of one sample. A first tile could share its chunk with
        # earlier samples, but no writer does that.
        yield range(start, end)


def _settings(reader: SampleReader) -> tuple[object, ...]:
    meta = reader.state.meta
    return (
        *(meta.htype, meta.dtype, meta.sample_compression, meta.chunk_compression, meta.is_link),
        len(meta.max_shape),
    )


def _sequences(state: TensorState, flat: tuple[int, int]) -> tuple[int, int]:
    """Return the first and last sequence that contain a range of flat samples, given as (first, last)."""
    if state.sequence is None or not state.sequence.count:
        return flat
    ends = np.cumsum(state.sequence.lengths)
    first, last = np.searchsorted(ends, np.array(flat, np.uint64), side="right").tolist()
    return min(first, len(ends) - 1), min(last, len(ends) - 1)


def damage(reader: SampleReader, row: int) -> str | None:
    """Decode a sample, or read the text of a link; return a description of its damage, or None.

    Raises
    ------
    LakebedError
        If the sample cannot be decoded for another reason than damage, such as a missing package.
    """
    try:
        if reader.is_link:
            reader.raw(row)
        else:
            reader.value(row)
    except (FormatError, LimitError, StorageError) as error:
        return str(error)
    except EmptyTensorError:
        return None
    return None
