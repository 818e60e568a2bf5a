import { describe, expect, it } from "vitest";
import { toView } from "./camera";
import { below, draw, isInside, painted } from "./draw";
import type { Item, Scene } from "./scene";

const VIEW = { width: 400, height: 300 };
const MARK = { tensor: "b", index: 0, name: "", labels: null, score: null, colour: "#ff0000" };

function made(items: Item[]): Scene {
  return { base: "i", size: { width: 100, height: 80 }, masks: [], items, chips: [], notes: [], overlays: [], classes: [], hasScores: false };
}

/** A context that writes down what is called on it. */
function recorder() {
  const calls: [string, ...unknown[]][] = [];
  const context = new Proxy({} as Record<string, unknown>, {
    get: (target, name: string) =>
      name in target ? target[name] : (...rest: unknown[]) => (calls.push([name, ...rest]), name === "measureText" ? { width: 30 } : undefined),
  });
  return { calls, context: context as unknown as CanvasRenderingContext2D };
}

const SETTINGS = { ratio: 2, opacity: 0.5, names: "all" as const, chips: true, lit: null };

describe("draw", () => {
  for (const scale of [0.05, 0.5, 1, 3.3, 64]) {
    it(`puts the edges of a box where they are at zoom ${scale}, whatever the ratio of pixels`, () => {
      const { calls, context } = recorder();
      const camera = { scale, x: 20, y: 15 };
      draw(context, made([{ ...MARK, is: "box", left: 17.25, top: 12, right: 23, bottom: 18.5 }]), { layers: [], masks: new Map() }, camera, VIEW, SETTINGS);
      expect(calls[0]).toEqual(["setTransform", 2, 0, 0, 2, 0, 0]);
      const [, x, y, width, height] = calls.find(([name]) => name === "rect") as [string, number, number, number, number];
      const [left, top] = toView(camera, VIEW, 17.25, 12);
      const [right, bottom] = toView(camera, VIEW, 23, 18.5);
      [x - left, y - top, x + width - right, y + height - bottom].forEach((off) => expect(Math.abs(off)).toBeLessThan(1e-9));
    });
  }

  it("leaves out what is not in sight", () => {
    const { calls, context } = recorder();
    const away: Item = { ...MARK, is: "box", left: 900, top: 900, right: 950, bottom: 950 };
    draw(context, made([away]), { layers: [], masks: new Map() }, { scale: 1, x: 50, y: 40 }, VIEW, SETTINGS);
    expect(calls.filter(([name]) => name === "rect")).toEqual([]);
  });

  it("writes names that do not cover each other", () => {
    const { calls, context } = recorder();
    const many = Array.from({ length: 60 }, (_, index): Item => ({ ...MARK, index, name: "dog", is: "box", left: index, top: 20, right: index + 30, bottom: 50 }));
    draw(context, made(many), { layers: [], masks: new Map() }, { scale: 2, x: 50, y: 40 }, VIEW, SETTINGS);
    const chips = calls.filter(([name]) => name === "fillRect") as [string, number, number, number, number][];
    expect(chips.length).toBeGreaterThan(3);
    chips.forEach(([, x, y, w, h], at) => {
      for (const [, a, b, c, d] of chips.slice(0, at)) expect(x < a + c && x + w > a && y < b + d && y + h > b).toBe(false);
    });
  });
});

it("writes the name of an object once, though it has a box and an outline", () => {
  const { calls, context } = recorder();
  const of = { ...MARK, name: "dog", labels: "l" };
  const items: Item[] = [
    { ...of, is: "box", left: 10, top: 10, right: 60, bottom: 60 },
    { ...of, tensor: "p", is: "polygon", parts: [[10, 10, 60, 10, 60, 59]] },
    { ...of, tensor: "k", is: "points", points: [{ x: 30, y: 30, seen: true, name: "" }], joins: [] },
    { ...of, index: 1, is: "box", left: 70, top: 10, right: 95, bottom: 60 },
  ];
  draw(context, made(items), { layers: [], masks: new Map() }, { scale: 3, x: 50, y: 40 }, VIEW, SETTINGS);
  expect(calls.filter(([name]) => name === "fillText").length).toBe(2);
});

it("holes of polygons are outside", () => {
  const square = (from: number, to: number) => [from, from, to, from, to, to, from, to];
  expect([5, 1, 9.5, 11].map((at) => isInside([square(0, 10), square(3, 7)], at, at))).toEqual([false, true, true, false]);
});

it("the smallest thing below the pointer comes first", () => {
  const large: Item = { ...MARK, is: "box", left: 0, top: 0, right: 50, bottom: 50 };
  const small: Item = { ...MARK, index: 1, is: "box", left: 10, top: 10, right: 20, bottom: 20 };
  expect(below(made([large, small]), 15, 15, 1).map((one) => one.index)).toEqual([1, 0]);
  expect(below(made([large, small]), 40, 40, 1).map((one) => one.index)).toEqual([0]);
});

it("labels beyond the table of colours have one as well", () => {
  const mask = { tensor: "m", names: [], off: [], colours: [], colour: null };
  const found = new Uint32Array(painted(new Uint32Array([0, 1, 5_000_000]), mask).buffer);
  expect(found[0]).toBe(0);
  expect(found[2]).not.toBe(0);
});
