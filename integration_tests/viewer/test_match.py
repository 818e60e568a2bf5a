"""Matching in the page's language, in node: the counts, curves and matches of COCO's own evaluation."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

WEB = Path(__file__).resolve().parents[2] / "format" / "lakebed" / "viewer" / "web"
NODE = ["node", "--input-type=module", "-e"]
ROWS, CLASSES = 80, 4
BUILD = """
import { build } from "vite";
const [entry, out] = process.argv.slice(-2);
const lib = { entry, formats: ["es"], fileName: () => "match.js" };
await build({ configFile: false, logLevel: "error", build: { lib, outDir: out, target: "es2022" } });
"""
RUN = """
const [module, file] = process.argv.slice(-2);
const { counted, curves, match } = await import(module);
const { readFileSync } = await import("node:fs");
const { truth, predicted, thresholds, classes } = JSON.parse(readFileSync(file, "utf8"));
const objects = ({ starts, boxes, kinds, scores }) => ({
  starts: Uint32Array.from(starts), boxes: Float64Array.from(boxes.flat()),
  classes: Int32Array.from(kinds), scores: Float64Array.from(scores),
});
const [a, b] = [objects(truth), objects(predicted)];
console.log(JSON.stringify(thresholds.map((iou) => {
  const found = match(a, b, iou, 0);
  const { tp, fp, fn } = counted(a, b, found, classes);
  const told = curves(a, b, found, classes).map((one) => one && [...one.precision]);
  return { matches: [...found.truthOf], counts: [tp, fp, fn].map((one) => [...one]), curves: told };
})));
"""

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (WEB / "node_modules").is_dir(),
    reason="no node here: make lint installs it",
)


def drawn(draws: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return true boxes of rows, and predictions that are some of them, moved, and others; scores have ties."""
    truth: dict[str, Any] = {"starts": [0], "boxes": [], "kinds": [], "scores": []}
    predicted: dict[str, Any] = {"starts": [0], "boxes": [], "kinds": [], "scores": []}
    for _ in range(ROWS):
        mine = np.concatenate([draws.uniform(0, 60, (6, 2)), draws.uniform(8, 40, (6, 2))], axis=1)
        mine = mine[: draws.integers(0, 7)]
        mine = np.concatenate([mine, mine[:1]])  # one twice: predictions overlap both alike
        copies = draws.integers(0, 3, len(mine))
        theirs = np.repeat(mine, copies, axis=0) + draws.normal(0, 3, (copies.sum(), 4))
        theirs[:, 2:] = np.abs(theirs[:, 2:]) + 1
        kinds = draws.integers(0, CLASSES - 1, len(mine))  # the last class is only predicted
        kinds[-1:] = kinds[:1]
        guessed = np.repeat(kinds, copies)
        guessed = np.where(
            draws.random(len(guessed)) < 0.2, draws.integers(0, CLASSES, len(guessed)), guessed
        )
        for of, boxes, classes in ((truth, mine, kinds), (predicted, theirs, guessed)):
            of["boxes"] += boxes.tolist()
            of["kinds"] += classes.tolist()
            of["scores"] += np.round(draws.random(len(boxes)), 1).tolist()
            of["starts"].append(len(of["boxes"]))
    return truth, predicted


def evaluated(truth: dict[str, Any], predicted: dict[str, Any], iou: float) -> Any:
    """Return pycocotools' evaluation at one threshold."""
    coco = pytest.importorskip("pycocotools.coco", reason="no pycocotools here")
    evaluation = pytest.importorskip("pycocotools.cocoeval", reason="no pycocotools here")

    def annotations(of: dict[str, Any]) -> list[dict[str, Any]]:
        images = np.searchsorted(of["starts"], np.arange(len(of["boxes"])), side="right")
        return [
            {"id": at + 1, "image_id": int(image), "category_id": kind + 1, "bbox": box, "score": score}
            | {"area": box[2] * box[3], "iscrowd": 0}
            for at, (image, kind, box, score) in enumerate(
                zip(images, of["kinds"], of["boxes"], of["scores"], strict=True)
            )
        ]

    with contextlib.redirect_stdout(io.StringIO()):
        known = coco.COCO()
        known.dataset = {
            "images": [{"id": row + 1} for row in range(ROWS)],
            "categories": [{"id": kind + 1} for kind in range(CLASSES)],
            "annotations": annotations(truth),
        }
        known.createIndex()
        found = evaluation.COCOeval(known, known.loadRes(annotations(predicted)), "bbox")
        found.params.iouThrs, found.params.maxDets = np.array([iou]), [1000]
        found.params.areaRng, found.params.areaRngLbl = [[0, 1e10]], ["all"]
        found.evaluate()
        found.accumulate()
    return found


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the module as a file of JavaScript."""
    out = tmp_path_factory.mktemp("match")
    subprocess.run([*NODE, BUILD, "--", WEB / "src" / "match.ts", out], check=True, cwd=WEB)
    return out / "match.js"


@pytest.mark.parametrize("seed", [1, 2])
def test_matches_and_curves_are_those_of_coco(seed: int, module: Path, tmp_path: Path) -> None:
    pytest.importorskip("pycocotools.cocoeval", reason="no pycocotools here")
    truth, predicted = drawn(np.random.default_rng(seed))
    thresholds = [0.3, 0.5, 0.75, 0.95]
    given = {"truth": truth, "predicted": predicted, "thresholds": thresholds, "classes": CLASSES}
    (tmp_path / "given.json").write_text(json.dumps(given))
    arguments = ["--", module.as_uri(), str(tmp_path / "given.json")]
    done = subprocess.run([*NODE, RUN, *arguments], check=True, capture_output=True, text=True)
    for iou, found in zip(thresholds, json.loads(done.stdout), strict=True):
        expected = evaluated(truth, predicted, iou)
        matches = np.full(len(predicted["boxes"]), -1)
        total = np.bincount(truth["kinds"], minlength=CLASSES)
        for one in filter(None, expected.evalImgs):
            for number, other in zip(one["dtIds"], one["dtMatches"][0], strict=True):
                matches[int(number) - 1] = int(other) - 1
        assert found["matches"] == matches.tolist(), iou
        assert (matches >= 0).sum() > 10 or iou > 0.9, "too few to tell anything"
        kinds = np.array(predicted["kinds"])
        tp, fp = (np.bincount(kinds[is_one], minlength=CLASSES) for is_one in (matches >= 0, matches < 0))
        assert found["counts"] == [tp.tolist(), fp.tolist(), (total - tp).tolist()], iou
        for kind, curve in enumerate(found["curves"]):
            theirs = expected.eval["precision"][0, :, kind, 0, 0]
            assert (curve is None) == (total[kind] == 0)
            if curve is not None:
                np.testing.assert_allclose(curve, theirs, rtol=0, atol=1e-12)
