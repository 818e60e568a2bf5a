"""Deep Lake 3.9.52 on datasets that lakebed published to often: collected, compacted, cut by checkpoints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lakebed
from integration_tests.interop.test_interop import assert_all_versions_agree, assert_both_see_the_same, run
from lakebed import config
from lakebed.history.squash_diffs import is_checkpoint
from lakebed.versions.gc import collect as collect_module

pytestmark = pytest.mark.interop


@pytest.fixture
def grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset of forty publishes, of which few heads are left, with checkpoints before and after a commit."""
    monkeypatch.setattr(config, "CHECKPOINT_CHUNKS", 4)
    monkeypatch.setattr(config, "KEEP_HEADS", 2)
    monkeypatch.setattr(config, "FSYNC", False)
    monkeypatch.setattr(collect_module, "_EVERY", 2)
    monkeypatch.setattr(collect_module, "YOUNG_SECONDS", 0.0)
    path = tmp_path / "grown"
    ds = lakebed.empty(path)
    ds.create_tensor("n", dtype="int64", max_chunk_size=800)
    ds.create_tensor("t", htype="text")
    for number in range(40):
        ds.n.extend(np.arange(number * 50, number * 50 + 50))
        ds.t.extend([f"row {number}"] * 50)
        ds.flush()
        if number == 20:
            ds.commit("halfway")
            ds.n[3] = -3
    ds.close()
    checkpoints = [node for node in ds._session.tree.commits.values() if is_checkpoint(node)]
    assert len(checkpoints) > 5
    assert len(list((path / "versions").glob("*/dataset_meta.json"))) < 12 + len(checkpoints)
    del ds
    return path


def test_both_read_what_is_left_after_a_collection(grown: Path) -> None:
    """Every version and sample reads the same before and after `lakebed gc`, and neither shows a checkpoint."""
    before = assert_both_see_the_same(grown, "main")
    assert assert_all_versions_agree(grown) > 0
    assert lakebed.gc(grown, grace=0).files > 0
    assert assert_both_see_the_same(grown, "main") == before
    assert_all_versions_agree(grown)
    assert lakebed.gc(grown, grace=0).files == 0


def test_both_go_on_above_checkpoints(grown: Path) -> None:
    """3.9.52 and lakebed append, commit and branch in turns; what 3.9.52 wrote is never garbage."""
    for library in ("deeplake", "lakebed", "deeplake"):
        run(library, "extend", grown, "main")
        lakebed.gc(grown, grace=0)
        run(library, "branch", grown, f"by_{library}_{len(lakebed.load(grown, read_only=True).branches)}")
        lakebed.gc(grown, grace=0)
        branches = lakebed.load(grown, read_only=True).branches
        assert_both_see_the_same(grown, *branches)
    assert_all_versions_agree(grown)
