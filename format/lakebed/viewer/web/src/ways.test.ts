import { describe, expect, it } from "vitest";
import type { Item } from "./scene";
import { differences, pixels, words } from "./ways";

const box = (index: number, left: number, name = "cat", tensor = "boxes"): Item =>
  ({ is: "box", tensor, index, name, labels: "labels", score: null, colour: `#00000${index}`, left, top: 0, right: left + 10, bottom: 10 });

describe("differences", () => {
  it("tells boxes that stayed, moved, came and went, whatever their numbers and colours are", () => {
    const before = [box(0, 0), box(1, 100), box(2, 200)];
    const after = [box(0, 102), box(1, 0), box(2, 300)];
    expect(differences(before, after)).toEqual([["same", "changed", "removed"], ["changed", "same", "added"]]);
  });

  it("tells a box of another class, and boxes of other tensors apart", () => {
    expect(differences([box(0, 0)], [box(0, 0, "dog")])).toEqual([["changed"], ["changed"]]);
    expect(differences([box(0, 0)], [box(0, 0, "cat", "others")])).toEqual([["removed"], ["added"]]);
  });
});

describe("words", () => {
  it("counts each word as often as it is there", () => {
    const told = words(["car", "car", "dog"], ["dog", "car", "bus"]).map(({ text, is }) => `${is} ${text}`);
    expect(told).toEqual(["same car", "removed car", "same dog", "added bus"]);
  });
});

describe("pixels", () => {
  it("leaves out what compressing changes, but no label", () => {
    const [before, after] = [[10, 10, 10, 255, 3, 0, 0, 255], [14, 10, 10, 255, 40, 0, 0, 255]].map((one) => new Uint8ClampedArray(one));
    expect(pixels(before!, after!, false).count).toBe(1);
    expect(pixels(before!, after!, true).count).toBe(2);
    expect([...pixels(before!, after!, false).rgba.slice(0, 4)]).toEqual([0, 0, 0, 0]);
  });
});
