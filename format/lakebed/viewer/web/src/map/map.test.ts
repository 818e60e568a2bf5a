import { describe, expect, it } from "vitest";
import { packed, pointAt, frameOf, cleared, points } from "../space/raster";
import type { TensorMeta } from "../types";
import { plane, projected } from "./pca";
import { colouring, coloursOf, dimmed, fitted, inside, matrixOfLook, similarQuery, vectors } from "./plane";

const tensor = (name: string, rest: Partial<TensorMeta>): TensorMeta => ({ name, htype: "generic", kind: "array", dtype: "float32", min_shape: [], max_shape: [], rows: 9, sequence: false, link: false, format: null, class_names: [], coords: null, skeleton: [], keypoints: [], over: null, logical: null, ...rest });

let state = 1;
const random = (): number => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32 - 0.5;

describe("the plane of vectors", () => {
  const axes = 12;
  const [first, second] = [3, 7];
  const rows = Float32Array.from({ length: 500 * axes }, (_, at) => random() * (at % axes === first ? 9 : at % axes === second ? 4 : 0.2) + 100);

  it("has the axes along which they vary most, the largest component of each positive", () => {
    const { basis, share, mean } = plane(rows, axes);
    expect(basis[first]).toBeGreaterThan(0.999);
    expect(basis[axes + second]).toBeGreaterThan(0.999);
    expect(share).toBeGreaterThan(0.98);
    expect(mean[0]).toBeCloseTo(100, 0);
    const places = projected(rows, axes, { basis, share, mean });
    expect(places.length).toBe(1000);
    expect(places[0]).toBeCloseTo(rows[first]! - mean[first]!, 1);
  });

  it("leaves out vectors with what is no number, and bears vectors that are all alike", () => {
    const broken = rows.slice();
    broken[5 * axes] = NaN;
    const found = plane(broken, axes);
    expect(found.basis.every(Number.isFinite)).toBe(true);
    expect(Number.isNaN(projected(broken, axes, found)[10])).toBe(true);
    const same = plane(new Float32Array(100 * axes).fill(3), axes);
    expect(Math.max(...projected(new Float32Array(axes).fill(3), axes, same))).toBeCloseTo(0);
  });
});

describe("what a map shows", () => {
  it("of which tensors", () => {
    const columns = [
      tensor("shape", { max_shape: [4] }), tensor("vector", { htype: "embedding", max_shape: [64] }), tensor("matrix", { max_shape: [2, 2] }),
      tensor("steps", { max_shape: [3], sequence: true }), tensor("score", { kind: "scalar" }), tensor("group", { kind: "label", dtype: "uint32" }), tensor("word", { kind: "scalar", dtype: "str" }),
    ];
    expect(vectors(columns).map((one) => one.name)).toEqual(["vector", "shape"]);
    expect(colouring(columns).map((one) => one.name)).toEqual(["group", "score"]);
  });

  it("in which colours", () => {
    const by = tensor("group", { kind: "label", class_names: ["a", "b"] });
    const found = coloursOf(Float32Array.from([0, 1, 0, NaN]), by, 4, { a: "#010203", b: "#040506" }, [0, 1]);
    expect([...found]).toEqual([packed(1, 2, 3), packed(4, 5, 6), packed(1, 2, 3), packed(0x9a, 0xa3, 0xae)]);
    expect([...dimmed(found, (at) => at === 1)].map((one) => one >>> 24)).toEqual([0x28, 255, 0x28, 0x28]);
    const shades = coloursOf(Float32Array.from([0, 5]), tensor("x", { kind: "scalar" }), 2, {}, [0, 5]);
    expect(shades[0]).toBe(packed(0, 0x20, 0x4d));
  });

  it("where, and which points a line is around", () => {
    const places = Float32Array.from([0, 0, 10, 10, NaN, NaN, 5, 5]);
    const look = fitted(places, 100, 100);
    expect([look.x, look.y, look.scale]).toEqual([5, 5, 9]);
    const m = matrixOfLook(look, 100, 100);
    const frame = cleared(frameOf(100, 100), false);
    points(frame, places, 2, Uint32Array.from([1, 2, 3, 4]), m, 1);
    expect(pointAt(frame, 7, 93, 4)).toBe(0); // y is upwards
    expect(pointAt(frame, 94, 4, 4)).toBe(1);
    expect(pointAt(frame, 30, 30, 4)).toBe(null);
    const mask = Uint8Array.from({ length: 10_000 }, (_, at) => Number(at % 100 > 40));
    expect(inside(places, 2, m, mask, 100, 100)).toEqual([1, 3]);
  });

  it("and how nearest rows are asked for", () => {
    expect(similarQuery("my vector", 3, "l2")).toBe('SELECT * ORDER BY L2_DISTANCE("my vector", DATA("my vector", 3)) LIMIT 100');
  });
});
