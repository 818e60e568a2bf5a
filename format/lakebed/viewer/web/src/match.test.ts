import { describe, expect, it } from "vitest";
import { counted, curves, match, overlap, rowsOf, type Objects } from "./match";

type Box = [left: number, top: number, width: number, height: number, of: number, score?: number];

/** Objects of rows of boxes. */
function objects(...rows: Box[][]): Objects {
  const all = rows.flat();
  const starts = Uint32Array.from([0, ...rows.map((_, at) => rows.slice(0, at + 1).flat().length)]);
  return {
    starts,
    boxes: Float64Array.from(all.flatMap((one) => one.slice(0, 4) as number[])),
    classes: Int32Array.from(all, (one) => one[4]),
    scores: Float64Array.from(all, (one) => one[5] ?? 1),
  };
}

const CAT = 0;
const DOG = 1;

describe("overlap", () => {
  it("is the intersection over the union", () => {
    const { boxes } = objects([[0, 0, 10, 10, CAT], [5, 0, 10, 10, CAT], [10, 0, 5, 5, CAT]]);
    expect([overlap(boxes, 0, boxes, 0), overlap(boxes, 0, boxes, 1), overlap(boxes, 0, boxes, 2)]).toEqual([1, 50 / 150, 0]);
  });
});

describe("match", () => {
  it("lets the highest score choose first, and each true box once", () => {
    const truth = objects([[0, 0, 10, 10, CAT]]);
    const predicted = objects([[0, 0, 10, 10, CAT, 0.4], [1, 0, 10, 10, CAT, 0.9]]);
    const found = match(truth, predicted, 0.5, 0);
    expect([[...found.truthOf], [...found.predictionOf]]).toEqual([[-1, 0], [1]]);
    expect(found.best[0]).toBe(1);
    const { tp, fp, fn } = counted(truth, predicted, found, 2);
    expect([tp[CAT], fp[CAT], fn[CAT]]).toEqual([1, 1, 0]);
  });

  it("matches no boxes of other rows, other classes or too little overlap", () => {
    const truth = objects([[0, 0, 10, 10, CAT]], [[0, 0, 10, 10, DOG]], [[0, 0, 10, 10, CAT]]);
    const predicted = objects([], [[0, 0, 10, 10, CAT]], [[6, 0, 10, 10, CAT]]);
    const found = match(truth, predicted, 0.5, 0);
    expect([...found.truthOf]).toEqual([-1, -1]);
    const { matrix, fp, fn } = counted(truth, predicted, found, 2);
    expect([[...fp], [...fn]]).toEqual([[2, 0], [2, 1]]);
    // true cats: two were not found; a dog was taken for a cat; a cat was where nothing is
    expect([...matrix]).toEqual([0, 0, 2, 1, 0, 0, 1, 0, 0]);
  });

  it("counts no predictions below the least score, and what only they found as not found", () => {
    const truth = objects([[0, 0, 10, 10, CAT], [20, 0, 10, 10, DOG]]);
    const predicted = objects([[0, 0, 10, 10, CAT, 0.2], [0, 0, 10, 10, DOG, 0.8]]);
    const found = match(truth, predicted, 0.5, 0.5);
    const { tp, fp, fn, matrix } = counted(truth, predicted, found, 2);
    expect([[...tp], [...fp], [...fn]]).toEqual([[0, 0], [0, 1], [1, 1]]);
    expect([...matrix]).toEqual([0, 1, 0, 0, 0, 1, 0, 0, 0]);
  });

  it("tells the rows of a count", () => {
    const truth = objects([[0, 0, 10, 10, CAT]], [], [[0, 0, 10, 10, CAT]]);
    const predicted = objects([[0, 0, 10, 10, DOG]], [[0, 0, 1, 1, DOG]], [[0, 0, 10, 10, CAT]]);
    const found = match(truth, predicted, 0.5, 0);
    const rows = (...pick: Parameters<typeof rowsOf>[4]) => rowsOf(truth, predicted, found, 2, pick);
    expect([rows("tp", CAT), rows("fp", DOG), rows("fn", CAT), rows("cell", CAT, DOG), rows("cell", 2, DOG)]).toEqual([[2], [0, 1], [0], [0], [1]]);
  });
});

describe("curves", () => {
  it("has the precision at each recall, and their mean", () => {
    const truth = objects([[0, 0, 10, 10, CAT], [20, 0, 10, 10, CAT]]);
    const predicted = objects([[0, 0, 10, 10, CAT, 0.9], [50, 0, 10, 10, CAT, 0.8], [20, 0, 10, 10, CAT, 0.7]]);
    const [cat, dog] = curves(truth, predicted, match(truth, predicted, 0.5, 0), 2);
    expect(dog).toBeNull();
    expect(cat?.precision[50]).toBeCloseTo(1);
    expect(cat?.precision[51]).toBeCloseTo(2 / 3);
    expect(cat?.average).toBeCloseTo((51 + 50 * (2 / 3)) / 101);
  });

  it("is zero for a class that is not predicted", () => {
    const truth = objects([[0, 0, 10, 10, CAT]]);
    const predicted = objects([]);
    expect(curves(truth, predicted, match(truth, predicted, 0.5, 0), 1)[0]?.average).toBe(0);
  });
});
