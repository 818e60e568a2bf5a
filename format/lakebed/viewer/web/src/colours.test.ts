import { expect, it } from "vitest";
import { channels, colourOf, contrast, inkOn, numbered, PALETTE, told } from "./colours";

it("names keep their colours", () => {
  expect(["person", "car", "dog", ""].map((name) => colourOf(name))).toMatchInlineSnapshot(`
    [
      "#e69f00",
      "#87ffa5",
      "#0f4bc3",
      "#cc79a7",
    ]
  `);
});

it("a chosen colour wins, and a name of Object's own is just a name", () => {
  expect(colourOf("a", { a: "#010203" })).toBe("#010203");
  expect(PALETTE).toContain(colourOf("constructor", {}));
});

it("names are spread over the colours", () => {
  const counts = new Map<string, number>();
  for (let at = 0; at < 2400; at += 1) counts.set(colourOf(`class ${at}`), (counts.get(colourOf(`class ${at}`)) ?? 0) + 1);
  expect(counts.size).toBe(PALETTE.length);
  expect(Math.max(...counts.values())).toBeLessThan(160);
});

it("classes of a dataset do not share a colour while there are some left", () => {
  const names = Array.from({ length: PALETTE.length }, (_, at) => `class ${at}`);
  const chosen = told([...names, ...names]);
  expect(new Set(names.map((name) => colourOf(name, chosen))).size).toBe(PALETTE.length);
  expect(chosen[names[0]!]).toBeUndefined(); // the first keeps its own
  expect(Object.keys(told(["__proto__", "constructor"])).length).toBeLessThan(2);
});

it("numbers of objects go round", () => {
  expect(numbered(PALETTE.length)).toBe(PALETTE[0]);
  expect(numbered(-1)).toBe(PALETTE.at(-1));
});

it("letters on any colour have a contrast of 4.5", () => {
  for (let value = 0; value < 0x1000000; value += 4099) {
    const colour = `#${value.toString(16).padStart(6, "0")}`;
    expect(contrast(colour, inkOn(colour))).toBeGreaterThanOrEqual(4.5);
  }
});

// Machado 2009, full protanopia and deuteranopia, on linear light; distances in Oklab (0.02 is just seen).
const EYES = {
  normal: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protan: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deutan: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
};

function seen(colour: string, eye: number[][]): number[] {
  const light = channels(colour).map((one) => (one / 255 <= 0.04045 ? one / 255 / 12.92 : ((one / 255 + 0.055) / 1.055) ** 2.4));
  const times = (rows: number[][], of: number[]) => rows.map((row) => row.reduce((sum, one, at) => sum + one * of[at]!, 0));
  const cones = times(
    [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]],
    times(eye, light).map((one) => Math.min(1, Math.max(0, one))),
  ).map(Math.cbrt);
  return times([[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099], [0.0259040371, 0.7827717662, -0.808675766]], cones);
}

it("colours are told apart by normal and by red-green blind eyes", () => {
  for (const [name, eye] of Object.entries(EYES)) {
    const all = PALETTE.map((colour) => seen(colour, eye));
    const nearest = Math.min(...all.flatMap((a, at) => all.slice(0, at).map((b) => Math.hypot(...a.map((one, axis) => one - b[axis]!)))));
    expect(nearest, name).toBeGreaterThan(name === "normal" ? 0.09 : 0.07);
  }
});
