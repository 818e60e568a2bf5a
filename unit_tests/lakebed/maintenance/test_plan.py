"""What a repair decides, apart from reading and writing."""

from __future__ import annotations

import numpy as np

from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.indexes.chunk_ids import ChunkIds
from lakebed.documents.indexes.creds_index import CredsIndex
from lakebed.documents.indexes.pad_index import PadIndex
from lakebed.documents.indexes.sequence_index import SequenceIndex
from lakebed.documents.indexes.tile_index import TileIndex
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.version_tree import FIRST, CommitNode, VersionTree
from lakebed.maintenance import plan
from lakebed.maintenance.plan import RepairReport, Step, Target, TensorLeft


def test_lost_samples_are_cut_off_only_at_the_end() -> None:
    """What is whole behind them keeps its place."""
    assert plan.kept_length(np.array([False, True, False, True, True])) == 3
    assert plan.kept_length(np.array([True, True])) == 0
    assert plan.kept_length(np.zeros(0, np.bool_)) == 0
    assert list(plan.runs(np.array([True, False, True, True]))) == [(0, 0), (2, 3)]


def test_rows_that_one_append_did_not_finish_are_left_out_of_all_its_tensors() -> None:
    """An unfinished row is torn; a tensor of another length has nothing to do with it."""
    left = {
        "done": TensorLeft(6, 6, 6),
        "behind": TensorLeft(6, 5, 5, is_unfinished=True),
        "other": TensorLeft(9, 9, 9),
    }
    found = plan.targets(left)
    assert {key: target.rows for key, target in found.items()} == {"done": 5, "behind": 5, "other": 9}
    assert "only some of its tensors" in found["done"].reason


def test_what_a_tensor_lost_becomes_empty_where_others_have_the_rows() -> None:
    """So that all keep the same length; alone, it is cut off."""
    lost = TensorLeft(6, 6, 2)
    assert plan.targets({"lost": lost, "whole": TensorLeft(6, 6, 6)})["lost"].rows == 6
    assert plan.targets({"lost": lost, "other": TensorLeft(7, 7, 7)})["lost"].rows == 2


def test_a_tensor_that_was_being_cleared_takes_no_rows_from_others() -> None:
    """Its files are gone; those of the others are not."""
    cleared = TensorLeft(6, 0, 0, is_unfinished=True, is_removed=True)
    found = plan.targets({"cleared": cleared, "whole": TensorLeft(6, 6, 6), "too": TensorLeft(6, 6, 6)})
    assert [found[key].rows for key in ("cleared", "whole", "too")] == [0, 6, 6]


def test_a_removal_is_completed_where_others_have_it_behind_them() -> None:
    """And not begun where none has."""
    behind = TensorLeft(5, 6, 6, is_shrinking=True, to_remove=(1,))
    done = TensorLeft(5, 5, 5, has_removed=True)
    assert plan.targets({"a": done, "b": behind})["b"].without == (1,)
    assert plan.targets({"a": behind, "b": behind}) == {"a": Target(6), "b": Target(6)}
    unknown = TensorLeft(5, 6, 6, is_shrinking=True)
    assert plan.targets({"a": done, "b": unknown})["b"] == Target(6)


def test_sequences_are_kept_whole() -> None:
    """One whose items are not all there goes."""
    sequence = SequenceIndex.from_lengths([2, 0, 3])
    assert sequence.within(4).lengths.tolist() == [2, 0]
    assert sequence.within(5) is sequence
    restored = plan.restored_sequences(SequenceIndex.from_lengths([2, 3]), 6, [7, 8, 9], {8})
    assert restored is not None
    assert restored.lengths.tolist() == [2, 1, 3]
    assert plan.restored_sequences(SequenceIndex.from_lengths([2, 3]), 6, [7, 9], {8}) is None


def test_ids_stay_with_their_rows_or_are_new() -> None:
    """Never those of another row."""
    assert plan.fitted_ids([1, 2, 3], 3, {9}, known=True) == [1, 2, 3]
    assert plan.fitted_ids([1, 2, 3], 2, (), known=True) == [1, 2]
    assert plan.fitted_ids([1, 2], 4, (), known=True) == [1, 2, None, None]
    assert plan.fitted_ids([1, 2, 3], 2, {2}, known=True) == [1, 3]
    assert plan.fitted_ids([1, 3], 3, {2}, known=False) == [None] * 3


def test_the_order_of_chunks_is_guessed_only_where_it_is_certain() -> None:
    """One chunk that no index names comes last; of several nobody knows."""
    known = ChunkIds.from_counts([5, 6], [2, 2])
    assert plan.guessed_index(None, known, [7]) == ([5, 6, 7], [])
    assert plan.guessed_index(known, None, [5, 6]) == ([5, 6], [])
    assert plan.guessed_index(None, None, [7]) == ([7], [])
    assert plan.guessed_index(None, known, [7, 8]) == ([5, 6], [7, 8])


def test_a_schema_is_made_of_the_tensors_that_are_there() -> None:
    """Order and settings are the parent's; names and groups come from the tensors."""
    metas = {
        "_x_id": TensorMeta(hidden=True, name="_x_id"),
        "g/new": TensorMeta(name="g/new"),
        "x": TensorMeta(name="x"),
    }
    parent = DatasetMeta(tensors=("x", "_x_id", "gone"), allow_delete=False)
    meta = plan.guessed_dataset_meta(metas, parent)
    assert meta.tensors == ("x", "_x_id", "g/new")
    assert meta.hidden_tensors == ("_x_id",)
    assert meta.groups == ("g",)
    assert not meta.allow_delete


def test_encoders_are_fitted_to_the_samples() -> None:
    """Entries of samples that are gone, or that contradict the chunks, go."""
    tiles = TileIndex.from_entries({1: ((4, 4), (2, 2)), 3: ((4, 4), (2, 2)), 9: ((4, 4), (2, 2))})
    assert plan.fitted_tiles(tiles, {1: 4, 9: 4}, 5, links=False).indices.tolist() == [1]
    assert plan.fitted_creds(CredsIndex.from_codes([1, 2, 2]), 2).values().tolist() == [1, 2]
    assert plan.fitted_creds(CredsIndex.from_codes([1]), 3).values().tolist() == [1, 0, 0]
    pad = PadIndex.empty().with_range(2, 4).with_range(6, 8)
    fitted = plan.fitted_pad(pad, 3)
    assert fitted is not None
    assert fitted.rows().tolist() == [2]
    assert plan.fitted_pad(pad, 2) is None


def test_diffs_are_fitted_to_the_rows() -> None:
    """3.9.52 takes a head without them for unchanged."""
    diff = CommitDiff(first=3, last=9, updated=np.array([1], np.uint64))
    fitted = plan.fitted_diff(diff, 5, [2, 4])
    assert (fitted.first, fitted.last, fitted.updated.tolist()) == (3, 5, [1, 2])
    made = plan.guessed_diff(4, 6, [0, 5])
    assert (made.created, made.first, made.last, made.updated.tolist()) == (False, 4, 6, [0])
    assert plan.guessed_diff(None, 6, []).created


def test_displaced_versions_are_ends_that_no_branch_leads_to() -> None:
    """Commits, heads and versions with children are none."""
    nodes = [
        CommitNode(FIRST, "main", None, ("a", "b", "c"), time=1.0),
        CommitNode("a", "main", FIRST),
        CommitNode("b", "main", FIRST),
        CommitNode("c", "main", FIRST, time=1.0),
    ]
    tree = VersionTree({node.id: node for node in nodes}, {"main": "b"})
    assert plan.orphaned(tree) == ["a"]
    assert plan.rows_beyond([1, 2, 3, 4], [1, 3], {4}) == [1]


def test_a_report_tells_what_is_lost() -> None:
    """For people and for programs."""
    step = Step("rows", "cut off: the chunk ends early", "main", "a" * 40, "x", (5, 6), 2, 16)
    assert str(step) == (
        "branch 'main', version aaaaaaaaaaaa, tensor 'x', rows 5 to 6: cut off: the chunk ends early "
        "(lost: 2 rows, 16 bytes)"
    )
    report = RepairReport("ds", steps=[step, Step("damage", "stays")])
    assert report.is_needed
    assert report.lost_rows == 2
    assert [str(kept) for kept in report.remaining] == ["stays"]
    assert report.to_json()["steps"][0]["rows"] == (5, 6)
