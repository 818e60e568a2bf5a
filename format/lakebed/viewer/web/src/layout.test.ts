import { describe, expect, it } from "vitest";
import { Bar, Flow, justified, listed } from "./layout";

const aspects = (start: number, count: number) => Array.from({ length: count }, (_, at) => 0.5 + ((start + at) % 7) / 4);
const flow = (length: number, groups: number[] = []) =>
  new Flow(length, 64, (start, count) => justified(aspects(start, count), 1000, 160, 8, 20), groups, 40);

describe("justified", () => {
  it("fills the width in every line of a full section, without overlap", () => {
    const { boxes, height } = justified(aspects(0, 64), 1000, 160, 8);
    for (const top of new Set(boxes.map((box) => box.top))) {
      const line = boxes.filter((box) => box.top === top);
      expect(line[0]?.left).toBe(0);
      const last = line.at(-1);
      expect((last?.left ?? 0) + (last?.width ?? 0)).toBe(1000);
      line.slice(1).forEach((box, at) => expect(box.left).toBe((line[at]?.left ?? 0) + (line[at]?.width ?? 0) + 8));
    }
    expect(boxes).toHaveLength(64);
    expect(height).toBeGreaterThan(64 * 10);
  });

  it("keeps a few pictures at the wanted height", () => {
    expect(justified([1, 1], 1000, 160, 8).boxes.map((box) => box.height)).toEqual([160, 160]);
  });

  it("places a picture that is wider than the page, and one without a shape", () => {
    const { boxes } = justified([50, Number.NaN, 0.001], 300, 160, 8);
    expect(boxes).toHaveLength(3);
    for (const box of boxes) expect(box.left + box.width).toBeLessThanOrEqual(300);
  });
});

describe("Flow", () => {
  it("comes back to where it was after moving down and up", () => {
    const rows = flow(1_000_000);
    let anchor = rows.fromPosition(500_000);
    const before = rows.toPosition(anchor);
    for (let at = 0; at < 200; at += 1) anchor = rows.move(anchor, 137, 800);
    expect(rows.toPosition(anchor)).toBeGreaterThan(before + 100);
    for (let at = 0; at < 200; at += 1) anchor = rows.move(anchor, -137, 800);
    expect(rows.toPosition(anchor)).toBeCloseTo(before, 6);
  });

  it("stops at both ends", () => {
    const rows = flow(1000);
    expect(rows.move({ section: 0, offset: 30 }, -500, 800)).toEqual({ section: 0, offset: 0 });
    const end = rows.move({ section: 0, offset: 0 }, 1e9, 800);
    expect(end).toEqual(rows.last(800));
    const bottom = Math.max(...rows.inSight(end, 0, 800).boxes.map((box) => box.top + box.height));
    expect(bottom).toBeCloseTo(800 - 8, 6);
    expect(flow(3).last(800)).toEqual({ section: 0, offset: 0 });
  });

  it("shows each row of the view once, in its order", () => {
    const { boxes } = flow(10_000_000).inSight({ section: 640, offset: 100 }, 200, 1000);
    const positions = boxes.map((box) => box.position);
    expect(positions).toEqual(positions.map((_, at) => (positions[0] as number) + at));
    expect(boxes.length).toBeLessThan(80);
  });

  it("cuts sections where groups begin, and heads them", () => {
    const rows = flow(200, [0, 10, 100]);
    expect(rows.section(9)).toEqual({ start: 0, end: 10, group: 0 });
    expect(rows.section(63)).toEqual({ start: 10, end: 64, group: 1 });
    expect(rows.section(64)).toEqual({ start: 64, end: 100, group: null });
    expect(rows.inSight({ section: 0, offset: 0 }, 0, 100_000).bands.map((band) => band.group)).toEqual([0, 1, 2]);
  });

  it("keeps the rest in its place when shapes of a section above arrive", () => {
    let known = false;
    const rows = new Flow(256, 64, (_, count) => listed(count, 100, known ? 20 : 10));
    const anchor = { section: 128, offset: 5 };
    const before = rows.inSight(anchor, 0, 100).boxes;
    known = true;
    rows.forget(0, 128);
    expect(rows.inSight(anchor, 0, 100).boxes).toEqual(before);
  });

  it("goes to the line below and back, over the ends of sections", () => {
    const rows = flow(1000);
    let position = 3;
    const tops: number[] = [position];
    for (let at = 0; at < 40; at += 1) tops.push((position = rows.beside(position, 1)));
    expect(tops.every((one, at) => at === 0 || one > (tops[at - 1] as number))).toBe(true);
    for (let at = 0; at < 60; at += 1) position = rows.beside(position, -1);
    expect(position).toBeLessThan(8);
    expect(rows.beside(999, 1)).toBe(999);
  });
});

describe("Bar", () => {
  it("is pixel for pixel where all fits", () => {
    const bar = new Bar(10_000, 800);
    expect(bar.inner).toBe(10_000);
    expect(bar.toScroll(0.5)).toBe(4600);
  });

  it("leads there and back, and goes by pixels near the ends", () => {
    const bar = new Bar(3.6e8, 800);
    expect(bar.inner).toBe(8_000_000);
    for (const share of [0, 1e-6, 0.001, 0.2, 0.5, 0.9, 0.9999, 1]) {
      expect(bar.toShare(bar.toScroll(share))).toBeCloseTo(share, 9);
    }
    expect(bar.toScroll(5000 / (3.6e8 - 800))).toBeCloseTo(5000, 3);
    expect(bar.toScroll(1)).toBe(8_000_000 - 800);
  });
});
