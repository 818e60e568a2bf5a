"""A draft keeps sequences, tiled samples, credentials, padding and hidden companions in step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.chunks.chunk import parse_chunk
from lakebed.chunks.tiling import boxes
from lakebed.codecs.block import Block
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.indexes.creds_index import CredsIndex
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.version_tree import new_id
from lakebed.htypes.arrays import encode_samples
from lakebed.storage.memory import MemoryStorage
from lakebed.versions.derive import empty_snapshot
from lakebed.versions.state import TensorState
from lakebed.writing.draft.draft import Draft
from lakebed.writing.draft.tensor import TensorDraft
from lakebed.writing.encode.encoded import Column, Encoded, Tiled
from unit_tests.effort import examples

LINKS = {
    "_x_shape": {"extend": "extend_shape", "flatten_sequence": True, "update": "update_shape"},
    "_x_info": {"extend": "extend_info", "flatten_sequence": True, "update": "update_info"},
    "_x_id": {"extend": "extend_id", "flatten_sequence": False},
}


def new_draft(**settings: Any) -> Draft:
    """A draft with one tensor ``x`` and its companions."""
    storage = MemoryStorage()

    def read(state: TensorState, row: int) -> bytes:
        key = state.table.key(row)
        for tensor in draft.tensors.values():
            if key in tensor.new_chunks:
                return b"".join(tensor.new_chunks[key])
        return storage.get(key)

    draft = Draft(empty_snapshot(new_id()), new_id(), storage, read)
    draft.schema.add_tensor("x", TensorMeta(htype="generic", dtype="uint8", links=LINKS, **settings), {}, ())
    draft.schema.add_tensor("_x_shape", TensorMeta(htype="generic", dtype="int64", hidden=True), {}, ())
    draft.schema.add_tensor("_x_info", TensorMeta(htype="json", dtype="Any", hidden=True), {}, ())
    draft.schema.add_tensor("_x_id", TensorMeta(hidden=True), {}, ())
    return draft


def part(draft: Draft, values: Sequence[Sequence[int]]) -> Encoded:
    """Samples of one axis."""
    block, _ = encode_samples([np.array(v, np.uint8) for v in values], np.dtype(np.uint8), 1)
    return Encoded(block, draft.tensors["x"].meta, infos=[{"n": len(v), "modified": False} for v in values])


def sequences(draft: Draft, rows: Sequence[Sequence[Sequence[int]]]) -> Column:
    """Rows of items."""
    flat = [item for row in rows for item in row]
    return Column([part(draft, flat)] if flat else [], np.array([len(r) for r in rows], np.int64))


def stored(draft: Draft, key: str = "x") -> list[bytes]:
    """Stored bytes of every flat sample."""
    draft.tensors[key].pack()
    return [bytes(draft.tensors[key].stored(i)) for i in range(draft.tensors[key].meta.length)]


def rows_of(draft: Draft) -> list[list[list[int]]]:
    """What the sequences hold."""
    flat = [list(v) for v in stored(draft)]
    sequence = draft.tensors["x"].state.sequence
    assert sequence is not None
    return [flat[slice(*sequence.span(i))] for i in range(sequence.count)]


ITEM = st.lists(st.integers(0, 255), max_size=4)
ROWS = st.lists(st.lists(ITEM, max_size=3), min_size=1, max_size=4)
ACTIONS = st.lists(st.tuples(st.sampled_from(["extend", "update", "items", "pop"]), ROWS), max_size=8)


@settings(max_examples=examples(150), deadline=None)
@given(actions=ACTIONS)
def test_sequences(actions: list[tuple[str, list[list[list[int]]]]]) -> None:
    """Rows grow, shrink and vanish; shapes and infos follow each item, ids each row."""
    draft = new_draft(is_sequence=True, max_chunk_size=30)
    model: list[list[list[int]]] = []
    for action, rows in actions:
        if action == "extend" or not model:
            draft.rows.extend({"x": sequences(draft, rows)})
            model += rows
        elif action == "pop":
            gone = sorted({len(r) % len(model) for r in rows})
            draft.rows.pop("x", gone)
            model = [r for i, r in enumerate(model) if i not in gone]
        elif action == "update":
            which = list(range(min(len(rows), len(model))))
            draft.rows.update("x", which, sequences(draft, rows[: len(which)]))
            model[: len(which)] = rows[: len(which)]
        else:
            flat = [(r, i) for r, row in enumerate(model) for i in range(len(row))]
            new = [item for row in rows for item in row][: len(flat)]
            if new:
                draft.rows.update_flat("x", list(range(len(new))), Column([part(draft, new)]))
                for (r, i), item in zip(flat, new, strict=False):
                    model[r][i] = item
    assert rows_of(draft) == model
    flat = [item for row in model for item in row]
    assert [np.frombuffer(v, np.int64).tolist() for v in stored(draft, "_x_shape")] == [
        [len(v)] for v in flat
    ]
    assert [json.loads(v)["n"] for v in stored(draft, "_x_info")] == [len(v) for v in flat]
    assert len(set(stored(draft, "_x_id"))) == len(model)


def tiled(draft: Draft, array: np.ndarray[Any, Any], tile: tuple[int, ...]) -> Column:
    """One sample in tiles."""

    def tiles() -> Iterator[tuple[tuple[int, ...], bytes]]:
        for box in boxes(array.shape, tile):
            yield array[box].shape, array[box].tobytes()

    block = Block(memoryview(b""), 1, 0, array.shape)
    meta = draft.tensors["x"].meta
    return Column([Encoded(block, meta, infos=[{"modified": False}], tiled=Tiled(array.shape, tile, tiles))])


def read_tiled(draft: Draft, row: int) -> np.ndarray[Any, Any]:
    """Put the tiles of a sample together."""
    tensor = draft.tensors["x"]
    tensor.pack()
    state = tensor.state
    shape, tile = state.tiles.entries[row]
    span = state.table.ids.locate(row)
    assert span.rows == len(boxes(shape, tile))
    array = np.zeros(shape, np.uint8)
    for number, box in enumerate(boxes(shape, tile)):
        at = span.row + number
        data = tensor._read(state, at)
        chunk = parse_chunk(data, 1)
        assert chunk.shape(0) == array[box].shape
        array[box] = np.frombuffer(chunk.data, np.uint8).reshape(array[box].shape)
    return array


def plain(draft: Draft, value: int) -> Column:
    """A small sample of two axes."""
    block, _ = encode_samples([np.full((2, 2), value, np.uint8)], np.dtype(np.uint8), 2)
    return Column([Encoded(block, draft.tensors["x"].meta)])


def test_tiled_samples_among_others() -> None:
    """Tiles are chunks of their own; removing and replacing samples around them moves their entry along."""
    draft = new_draft()
    image = np.arange(35, dtype=np.uint8).reshape(5, 7)
    for column in (plain(draft, 1), tiled(draft, image, (2, 3)), plain(draft, 2), plain(draft, 3)):
        draft.rows.extend({"x": column})
    assert np.array_equal(read_tiled(draft, 1), image)
    draft.rows.update("x", [0, 2], Column([*plain(draft, 7).parts, *plain(draft, 8).parts]))
    assert np.array_equal(read_tiled(draft, 1), image)
    draft.rows.pop("x", [0])
    assert np.array_equal(read_tiled(draft, 0), image)
    assert [bytes(draft.tensors["x"].stored(i))[0] for i in (1, 2)] == [8, 3]
    draft.rows.update("x", [2], tiled(draft, image.T, (4, 4)))
    assert np.array_equal(read_tiled(draft, 2), image.T)
    assert np.array_equal(read_tiled(draft, 0), image)
    draft.rows.pop("x", [0])
    assert np.array_equal(read_tiled(draft, 1), image.T)
    draft.rows.update("x", [1], plain(draft, 9))
    assert not draft.tensors["x"].is_tiled(1)
    assert [v[0] for v in stored(draft)] == [8, 9]
    assert len(draft.tensors["x"].state.tiles) == 0
    assert len(draft.tensors["x"].state.table) == 1


def test_only_the_tiles_that_are_written_are_new() -> None:
    """The other tiles keep their chunks, and ``_info`` remembers the change."""
    draft = new_draft()
    image = np.zeros((4, 4), np.uint8)
    draft.rows.extend({"x": plain(draft, 1)})
    draft.rows.extend({"x": tiled(draft, image, (2, 2))})
    draft.tensors.pack()
    before = draft.tensors["x"].state.table.ids.ids.tolist()
    draft.rows.write_tiles("x", 1, {0: bytes([1] * 4), 2: bytes([2] * 4)})
    after = draft.tensors["x"].state.table.ids.ids.tolist()
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True, False, True]
    assert read_tiled(draft, 1).tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [2, 2, 0, 0], [2, 2, 0, 0]]
    assert json.loads(bytes(draft.tensors["_x_info"].stored(1)))["modified"] is True


def test_credentials_follow_their_samples() -> None:
    """One code per flat sample."""
    draft = new_draft(is_link=True)
    codes = [0, 1, 1, 2]
    draft.rows.extend({"x": Column([part_with(draft, codes)])})
    draft.rows.pop("x", [1])
    draft.rows.update("x", [0], Column([part_with(draft, [3])]))
    draft.rows.extend({"x": Column([part_with(draft, [2, 0])])})
    creds = draft.tensors["x"].state.creds
    assert creds == CredsIndex.from_codes([3, 1, 2, 2, 0])


def test_samples_that_an_index_of_credentials_lacks_have_none() -> None:
    """As an index without rows says of all links; later ones keep their places."""
    draft = new_draft(is_link=True)
    draft.rows.extend({"x": Column([part_with(draft, [0, 0])])})
    state = draft.snapshot().tensors["x"]
    files = draft.tensors.new_chunks()
    storage = MemoryStorage()
    storage.put_many(files.items())
    tensor = TensorDraft(
        state.with_(creds=CredsIndex.from_codes([])),
        new_id(),
        lambda state, row: storage.get(state.table.key(row)),
        lambda files, *, is_rewrite: None,
    )
    tensor.append(part_with(draft, [2]))
    assert tensor.state.creds == CredsIndex.from_codes([0, 0, 2])
    tensor.update(1, part_with(draft, [1]))
    tensor.remove([0])
    assert tensor.state.creds == CredsIndex.from_codes([1, 2])


def part_with(draft: Draft, codes: list[int]) -> Encoded:
    """Samples with codes of credentials."""
    block, _ = encode_samples([np.array([c], np.uint8) for c in codes], np.dtype(np.uint8), 1)
    return Encoded(block, draft.tensors["x"].meta, creds=np.array(codes, np.uint32))


def test_padding_ends_when_a_row_gets_a_value_or_goes() -> None:
    """Ranges of padding, numbered as the rows are now."""
    draft = new_draft()
    draft.rows.extend({"x": Column([part(draft, [[1]])])})
    draft.rows.pad("x", 4)
    draft.rows.extend({"x": Column([part(draft, [[2]])])})
    state = draft.tensors["x"].state
    assert state.pad is not None
    assert state.pad.rows().tolist() == [1, 2, 3, 4]
    draft.rows.update("x", [2], Column([part(draft, [[3]])]))
    draft.rows.pop("x", [0, 3])
    pad = draft.tensors["x"].state.pad
    assert pad is not None
    assert pad.rows().tolist() == [0, 2]
    assert [list(v) for v in stored(draft)] == [[], [3], [], [2]]


@pytest.mark.parametrize("pops", [[[0], [0]], [[3, 1], [0]], [[2], [1, 0]]])
def test_deleted_rows_are_numbered_as_the_previous_version_had_them(pops: list[list[int]]) -> None:
    """Whatever was removed before them."""
    draft = new_draft()
    draft.rows.extend({"x": Column([part(draft, [[i] for i in range(5)])])})
    draft.tensors.pack()
    ids = stored(draft, "_x_id")
    tensor = draft.tensors["x"]
    tensor.record(CommitDiff(first=5, last=5))  # as after a commit
    model = list(range(5))
    gone = []
    for rows in pops:
        draft.rows.pop("x", rows)
        gone += [model[r] for r in sorted(rows)]
        model = [v for i, v in enumerate(model) if i not in rows]
    diff = tensor.state.diff
    assert diff is not None
    assert diff.deleted.tolist() == gone
    assert [i.tobytes() for i in diff.deleted_ids] == [ids[g] for g in gone]
    assert (diff.first, diff.last) == (len(model), len(model))
    assert [list(v) for v in stored(draft)] == [[v] for v in model]
