import { describe, expect, it } from "vitest";
import type { Cell, Json, Kind, TensorMeta } from "../types";
import { labels, table } from "./masks";
import { framesOf, hasWindow, placeIn, scene, sizeOf, type Item, type Look } from "./index";

const LOOK: Look = { hidden: [], hiddenClasses: [], colours: {}, confidence: 0 };

function tensor(name: string, kind: Kind, rest: Partial<TensorMeta> = {}): TensorMeta {
  return {
    name, kind, htype: kind, dtype: "float32", min_shape: [], max_shape: [], rows: 1, sequence: false, link: false, format: null,
    class_names: [], coords: null, skeleton: [], keypoints: [], over: kind === "image" ? null : "images",
    logical: null, ...rest,
  };
}

const IMAGE = tensor("images", "image");
const IMAGE_CELL: Cell = { s: [100, 200, 3] };

function drawn(parts: [TensorMeta, Json][], look: Partial<Look> = {}, frame = 0) {
  const cells: Record<string, Cell> = { images: IMAGE_CELL };
  for (const [one, value] of parts) cells[one.name] = one.kind === "mask" ? { s: value as number[] } : { v: value };
  return scene([IMAGE, ...parts.map(([one]) => one)], cells, { ...LOOK, ...look }, IMAGE, frame);
}

const EDGES = { left: 20, top: 10, right: 60, bottom: 40 };
const STORED: Record<string, number[]> = { LTWH: [20, 10, 40, 30], LTRB: [20, 10, 60, 40], CCWH: [40, 25, 40, 30] };

describe("boxes", () => {
  for (const mode of ["LTWH", "LTRB", "CCWH"]) {
    for (const type of ["pixel", "fractional"]) {
      it(`of ${mode} in ${type} units have the same edges`, () => {
        const box = STORED[mode]!.map((one, at) => (type === "pixel" ? one : one / (at % 2 ? 100 : 200)));
        const [item] = drawn([[tensor("boxes", "bbox", { coords: { type, mode } }), [box]]]).items;
        for (const [edge, at] of Object.entries(EDGES)) expect((item as never)[edge]).toBeCloseTo(at, 9);
      });
    }
  }

  it("without coords are left, top, width and height in pixels", () => {
    expect(drawn([[tensor("boxes", "bbox"), [[20, 10, 40, 30]]]]).items[0]).toMatchObject(EDGES);
  });

  it("that are turned, short or not finite are left out and named", () => {
    const found = drawn([[tensor("boxes", "bbox"), [[1, 2, 3, 4], [1, 2, 3, 4, 5], [1, null, 3, 4], [1, 2]]]]);
    expect(found.items.map((one) => one.index)).toEqual([0]);
    expect(found.notes.join()).toContain("2 boxes that are not four numbers");
    expect(found.notes.join()).toContain("1 boxes with a number that is not finite");
  });

  it("are drawn to the ten thousandth", () => {
    const found = drawn([[tensor("boxes", "bbox"), Array.from({ length: 10_001 }, () => [0, 0, 1, 1])]]);
    expect(found.items.length).toBe(10_000);
    expect(found.notes.join()).toContain("10,001");
  });
});

describe("names", () => {
  const names = ["cat", "dog"];
  it("come from labels of the same group, one for each box, before others", () => {
    const far = tensor("labels", "label", { class_names: ["wrong"] });
    const near = tensor("a/labels", "label", { class_names: names });
    const { items, chips } = drawn([[far, [0, 0]], [tensor("a/boxes", "bbox"), [[0, 0, 1, 1], [1, 1, 1, 1]]], [near, [1, 0]]]);
    expect(items.map((one) => one.name)).toEqual(["dog", "cat"]);
    expect(chips.map((one) => one.name)).toEqual(["wrong"]);
  });

  it("are none where there is not one label for each box", () => {
    const found = drawn([[tensor("boxes", "bbox"), [[0, 0, 1, 1]]], [tensor("labels", "label", { class_names: names }), [1, 0]]]);
    expect(found.items[0]?.name).toBe("");
    expect(found.chips.map((one) => one.name)).toEqual(["dog", "cat"]);
  });

  it("decide the colour, unless one was chosen", () => {
    const parts: [TensorMeta, Json][] = [[tensor("boxes", "bbox"), [[0, 0, 1, 1], [0, 0, 1, 1]]], [tensor("l", "label", { class_names: names }), [0, 0]]];
    const [one, other] = drawn(parts).items;
    expect(one?.colour).toBe(other?.colour);
    expect(drawn(parts, { colours: { cat: "#123456" } }).items[0]?.colour).toBe("#123456");
  });
});

describe("what is off", () => {
  const parts: [TensorMeta, Json][] = [
    [tensor("boxes", "bbox"), [[0, 0, 1, 1], [1, 1, 1, 1], [2, 2, 1, 1]]],
    [tensor("labels", "label", { class_names: ["cat", "dog"] }), [0, 1, 0]],
    [tensor("scores", "array", { over: null }), [0.9, 0.4, 0.2]],
  ];
  it("is not drawn: a tensor", () => {
    const found = drawn(parts, { hidden: ["boxes"] });
    expect(found.items).toEqual([]);
    expect(found.overlays).toEqual(["boxes"]);
  });
  it("is not drawn: a class, which stays in the list", () => {
    const found = drawn(parts, { hiddenClasses: ["labels:cat"] });
    expect(found.items.map((one) => one.index)).toEqual([1]);
    expect(found.classes).toMatchObject([{ name: "cat", count: 2, on: false }, { name: "dog", count: 1, on: true }]);
  });
  it("is not drawn: what is below the confidence", () => {
    const found = drawn(parts, { confidence: 0.4 });
    expect(found.items.map((one) => one.score)).toEqual([0.9, 0.4]);
    expect(found.hasScores).toBe(true);
  });
  it("keeps objects without a score", () => {
    expect(drawn(parts.slice(0, 2), { confidence: 1 }).items.length).toBe(3);
  });
});

describe("polygons", () => {
  const ring = (x: number): Json => [[x, 0], [x + 5, 0], [x, 5]];
  it("of one object are its parts, named by the object", () => {
    const { items } = drawn([
      [tensor("g/segmentation", "polygon"), [ring(0), ring(10), ring(20)]],
      [tensor("g/segmentation_object", "array", { over: null }), [0, 1, 1]],
      [tensor("g/labels", "label", { class_names: ["a", "b"] }), [0, 1]],
    ]);
    expect(items.map((one) => [one.name, (one as Item & { is: "polygon" }).parts.length])).toEqual([["a", 1], ["b", 2]]);
  });
  it("with holes, as lists of outlines, are one object", () => {
    const { items } = drawn([[tensor("p", "polygon"), [[ring(0), ring(1)]]]]);
    expect((items[0] as Item & { is: "polygon" }).parts).toEqual([[0, 0, 5, 0, 0, 5], [1, 0, 6, 0, 1, 5]]);
  });
  it("without three finite corners are left out and named", () => {
    const found = drawn([[tensor("p", "polygon"), [[[0, 0], [1, 1]], [[0, 0], [1, null], [2, 2]], ring(0)]]]);
    expect(found.items.map((one) => one.index)).toEqual([2]);
    expect(found.notes[0]).toContain("2 polygons");
  });
});

describe("points", () => {
  it("are one each", () => {
    expect(drawn([[tensor("p", "point"), [[3, 4], [5, 6]]]]).items).toMatchObject([{ points: [{ x: 3, y: 4 }] }, { points: [{ x: 5, y: 6 }] }]);
  });
  it("of COCO are columns; only those that are known are joined", () => {
    const value = [[1, 10], [2, 20], [2, 2], [3, 30], [4, 40], [1, 0]];
    const people = tensor("k", "keypoints", { keypoints: ["nose", "eye"], skeleton: [[0, 1], [1, 7]] });
    const [one, other] = drawn([[people, value]]).items as (Item & { is: "points" })[];
    expect(one).toMatchObject({ points: [{ x: 1, y: 2, seen: true, name: "nose" }, { x: 3, y: 4, seen: false, name: "eye" }], joins: [[0, 1]] });
    expect(other).toMatchObject({ points: [{ x: 10, y: 20, seen: true }, { seen: null }], joins: [] });
  });
  it("that are no triples are left out and named", () => {
    expect(drawn([[tensor("k", "keypoints"), [[1], [2]]]])).toMatchObject({ items: [], notes: [expect.stringContaining("triples")] });
  });
});

describe("masks", () => {
  it("have the names and colours of their classes", () => {
    const found = drawn([[tensor("m", "mask", { htype: "segment_mask", class_names: ["ground", "cat"] }), [100, 200]]], { hiddenClasses: ["m:cat"] });
    expect(found.masks).toMatchObject([{ names: ["ground", "cat"], off: [1] }]);
    expect(found.classes).toMatchObject([{ name: "cat", on: false }]);
  });
  it("of objects have the names of the labels beside them, from 1", () => {
    const found = drawn([[tensor("m", "mask", { htype: "binary_mask" }), [100, 200, 2]], [tensor("l", "label", { class_names: ["a", "b"] }), [1, 0]]]);
    expect(found.masks[0]?.names).toEqual(["", "b", "a"]);
  });
  it("whose layers are not one for each label have the names of their owners, or none", () => {
    const masks = tensor("g/rle_mask", "mask", { htype: "binary_mask" });
    const words: [TensorMeta, Json] = [tensor("g/labels", "label", { class_names: ["a", "b"] }), [0, 1, 1]];
    expect(drawn([[masks, [100, 200, 2]], words]).masks[0]?.names).toEqual([]);
    const owners = tensor("g/rle_object", "array", { over: null });
    expect(drawn([[masks, [100, 200, 2]], words, [owners, [2, 0]]]).masks[0]?.names).toEqual(["", "b", "a"]);
  });
  it("leave the ground and what is off clear", () => {
    const colours = table({ tensor: "m", names: [], off: [2], colours: [], colour: "#ff8000" }, 4);
    expect([...colours]).toEqual([0, 0, 0, 0, 255, 128, 0, 255, 0, 0, 0, 0, 255, 128, 0, 255]);
  });
  it("are read from all three channels", () => {
    expect([...labels(new Uint8ClampedArray([7, 1, 2, 255, 9, 9, 9, 255]))]).toEqual([7 + 256 + 2 * 65536, 9 * 65793]);
  });
});

describe("sequences", () => {
  it("show the boxes of their frame", () => {
    const boxes = tensor("b", "bbox", { sequence: true });
    const value = [[[0, 0, 1, 1]], [[5, 5, 1, 1], [6, 6, 1, 1]]];
    expect(drawn([[boxes, value]], {}, 1).items.map((one) => (one as Item & { is: "box" }).left)).toEqual([5, 6]);
    expect(drawn([[boxes, value]], {}, 9).items).toEqual([]);
  });
  it("tell their size and frames", () => {
    const film = tensor("f", "image", { sequence: true });
    expect([sizeOf(film, { s: [7, 10, 20, 3] }), framesOf(film, { s: [7, 10, 20, 3] })]).toEqual([{ width: 20, height: 10 }, 7]);
    expect([sizeOf(film, { s: [10, 20, 3], frames: 9 }), framesOf(film, { s: [10, 20, 3], frames: 9 })]).toEqual([{ width: 20, height: 10 }, 9]);
    expect(sizeOf(film, { error: "broken" })).toBeNull();
  });
  it("are the slices of a scan, and the frames of a film, as well", () => {
    const scan = tensor("n", "image", { htype: "nifti" });
    expect([sizeOf(scan, { s: [30, 20, 9] }), framesOf(scan, { s: [30, 20, 9] })]).toEqual([{ width: 20, height: 30 }, 9]);
    const dicom = tensor("d", "image", { htype: "dicom" });
    expect([sizeOf(dicom, { s: [9, 30, 20, 1] }), framesOf(dicom, { s: [9, 30, 20, 1] })]).toEqual([{ width: 20, height: 30 }, 9]);
    expect([sizeOf(dicom, { s: [30, 20, 1] }), framesOf(dicom, { s: [30, 20, 1] })]).toEqual([{ width: 20, height: 30 }, 1]);
    const volumes = { s: [30, 20, 9, 4] };
    expect([sizeOf(scan, volumes), framesOf(scan, volumes)]).toEqual([{ width: 20, height: 30 }, 36]);
    const colours = tensor("c", "image", { htype: "nifti", dtype: "uint8" });
    expect([framesOf(colours, { s: [30, 20, 9, 3] }), framesOf(colours, volumes), framesOf(colours, { s: [30, 20, 9, 5] })]).toEqual([9, 9, 45]);
    const film = tensor("v", "video");
    expect([sizeOf(film, { s: [99, 30, 20, 3] }), framesOf(film, { s: [99, 30, 20, 3] })]).toEqual([{ width: 20, height: 30 }, 99]);
  });
  it("have their pixels where the arrays of their files have them", () => {
    const dicom = tensor("d", "image", { htype: "dicom" });
    expect(placeIn(dicom, [9, 30, 20, 1], 2, 5, 7)).toEqual([(2 * 30 + 7) * 20 + 5, 1]);
    expect(placeIn(dicom, [30, 20, 3], 0, 5, 7)).toEqual([3 * (7 * 20 + 5), 3]);
    const scan = tensor("n", "image", { htype: "nifti" });
    expect(placeIn(scan, [30, 20, 9], 2, 5, 7)).toEqual([(7 * 20 + 5) * 9 + 2, 1]);
    expect(placeIn(scan, [30, 20, 9, 4], 2 + 9 * 3, 5, 7)).toEqual([((7 * 20 + 5) * 9 + 2) * 4 + 3, 1]);
    expect(placeIn({ ...scan, dtype: "uint8" }, [30, 20, 9, 3], 2, 5, 7)).toEqual([3 * ((7 * 20 + 5) * 9 + 2), 3]);
  });
  it("have a window where they are numbers of one channel", () => {
    const of = (htype: string, dtype: string, s: number[]) => hasWindow(tensor("x", "image", { htype, dtype }), { s });
    expect([of("dicom", "uint8", [9, 9, 1]), of("dicom", "uint8", [9, 9, 3]), of("nifti", "int16", [9, 9, 9]), of("nifti", "uint8", [9, 9, 9, 3])]).toEqual([true, false, true, false]);
    expect([of("image", "uint8", [9, 9, 1]), of("image", "uint16", [9, 9, 1]), of("sequence[dicom]", "int16", [9, 9, 1])]).toEqual([false, true, true]);
  });
});
