import { describe, expect, it } from "vitest";
import { across, fit, limited, panned, pinched, tilesOf, toImage, toView, wholeStep, widthStep, zoomedAt, type Camera } from "./camera";
import { edges } from "./scene/boxes";

const IMAGE = { width: 640, height: 480 };
const VIEW = { width: 800, height: 500 };
const CAMERA: Camera = { scale: 1.7, x: 300, y: 200 };

describe("camera", () => {
  it("fits the whole image, in the middle", () => {
    const camera = fit(IMAGE, VIEW);
    expect(toView(camera, VIEW, 0, 0)[1]).toBeCloseTo(0, 9);
    expect(toView(camera, VIEW, 640, 480)[1]).toBeCloseTo(500, 9);
    expect(toView(camera, VIEW, 320, 240)).toEqual([400, 250]);
  });

  it("goes from image to view and back", () => {
    const [x, y] = toImage(CAMERA, VIEW, ...toView(CAMERA, VIEW, 12.5, 99.25));
    expect(x).toBeCloseTo(12.5, 9);
    expect(y).toBeCloseTo(99.25, 9);
  });

  it("keeps what is below the pointer when it zooms", () => {
    const before = toImage(CAMERA, VIEW, 500, 300);
    const after = toImage(zoomedAt(CAMERA, 3, 500, 300, IMAGE, VIEW), VIEW, 500, 300);
    expect(after[0]).toBeCloseTo(before[0], 9);
    expect(after[1]).toBeCloseTo(before[1], 9);
  });

  it("moves by the pixels of a drag", () => {
    const [x, y] = toView(panned(CAMERA, 30, -20, IMAGE, VIEW), VIEW, ...toImage(CAMERA, VIEW, 100, 100));
    expect([x, y].map((one) => Math.round(one * 1e6) / 1e6)).toEqual([130, 80]);
  });

  it("keeps what is below two fingers", () => {
    const before = [[300, 200], [500, 300]] as const;
    const after = [[250, 180], [550, 330]] as const;
    const camera = pinched(CAMERA, before, after, IMAGE, VIEW);
    before.forEach((finger, at) => {
      const [x, y] = toView(camera, VIEW, ...toImage(CAMERA, VIEW, finger[0], finger[1]));
      expect(x).toBeCloseTo(after[at]![0], 6);
      expect(y).toBeCloseTo(after[at]![1], 6);
    });
  });

  it("does not lose the image, and takes nonsense for the whole of it", () => {
    expect(limited({ scale: 1e9, x: -5, y: 9999 }, IMAGE, VIEW)).toEqual({ scale: 64, x: 0, y: 480 });
    expect(limited({ scale: 1e-9, x: 1, y: 1 }, IMAGE, VIEW).scale).toBe(0.5);
    for (const odd of [{ scale: 0, x: 1, y: 1 }, { scale: NaN, x: 1, y: 1 }, { scale: 1, x: NaN, y: 1 }]) {
      expect(limited(odd, IMAGE, VIEW)).toEqual(fit(IMAGE, VIEW));
    }
  });

  it("shows the same part of an image of another size", () => {
    const half = { width: 320, height: 240 };
    const there = across(CAMERA, IMAGE, half);
    expect(toView(there, VIEW, 50, 25)).toEqual(toView(CAMERA, VIEW, 100, 50));
  });
});

describe("edges of boxes in the view", () => {
  const stored: Record<string, number[]> = { LTWH: [20, 10, 40, 30], LTRB: [20, 10, 60, 40], CCWH: [40, 25, 40, 30] };
  for (const mode of Object.keys(stored)) {
    for (const type of ["pixel", "fractional"]) {
      for (const scale of [0.05, 0.37, 1, 2.5, 17, 64]) {
        it(`${mode}, ${type}, zoom ${scale}: within half a pixel`, () => {
          const box = stored[mode]!.map((one, at) => (type === "pixel" ? one : Math.fround(one / (at % 2 ? 480 : 640))));
          const found = edges(box, { type, mode }, IMAGE);
          const camera = { scale, x: 33.3, y: 21.7 };
          const [left, top] = toView(camera, VIEW, found.left, found.top);
          const [right, bottom] = toView(camera, VIEW, found.right, found.bottom);
          const expected = [(20 - 33.3) * scale + 400, (10 - 21.7) * scale + 250, (60 - 33.3) * scale + 400, (40 - 21.7) * scale + 250];
          [left, top, right, bottom].forEach((edge, at) => expect(Math.abs(edge - expected[at]!)).toBeLessThan(0.01));
        });
      }
    }
  }
});

describe("pixels to ask for", () => {
  it("are the next step that is enough", () => {
    expect([100, 128, 129, 700, 1500, 3000].map((needed) => widthStep(needed, { width: 4000, height: 10 }))).toEqual([128, 128, 256, 1024, 2048, 0]);
    expect(widthStep(5000, { width: 300, height: 10 })).toBe(0);
    expect(widthStep(100, { width: 300, height: 10 })).toBe(128);
  });

  it("of a large image come in the tiles in sight, at the level of the zoom", () => {
    const large = { width: 20_000, height: 20_000 };
    expect(tilesOf(fit(large, VIEW), large, VIEW, 1)).toBeNull();
    expect(wholeStep(fit(large, VIEW), large, VIEW, 1)).toBe(512);
    expect(wholeStep({ scale: 1, x: 0, y: 0 }, large, VIEW, 1)).toBe(512);
    const near = tilesOf({ scale: 1, x: 10_000, y: 10_000 }, large, VIEW, 1)!;
    expect(near.factor).toBe(1);
    expect(near.boxes.length).toBeLessThanOrEqual(6);
    for (const [left, top, width, height] of near.boxes) {
      expect([left % 512, top % 512, width, height]).toEqual([0, 0, 512, 512]);
      expect(left + width > 9600 && left < 10_400 && top + height > 9750 && top < 10_250).toBe(true);
    }
    expect(tilesOf({ scale: 0.2, x: 10_000, y: 10_000 }, large, VIEW, 1)?.boxes[0]?.[2]).toBe(2048);
    const corner = tilesOf({ scale: 1, x: 20_000, y: 20_000 }, large, VIEW, 1)!.boxes.at(-1)!;
    expect([corner[0] + corner[2], corner[1] + corner[3]]).toEqual([20_000, 20_000]);
    expect(wholeStep({ scale: 9, x: 100, y: 100 }, { width: 1920, height: 1080 }, VIEW, 2)).toBe(0);
    expect(tilesOf({ scale: 9, x: 100, y: 100 }, { width: 1920, height: 1080 }, VIEW, 2)).toBeNull();
  });
});
