import { describe, expect, it } from "vitest";
import { fastBlock, fastSums } from "./fast";
import { decodeBlock } from "./lz4";
import { plainSums } from "./xxh3";

let state = 1;
function random(below: number): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}

/** A valid block of random literals and matches, and what it decodes to. */
function block(sequences: number): { stored: number[]; data: number[] } {
  const [stored, data]: [number[], number[]] = [[], []];
  const more = (length: number): number[] => (length < 15 ? [] : [...new Array<number>(Math.floor((length - 15) / 255)).fill(255), (length - 15) % 255]);
  for (let at = 0; at <= sequences; at++) {
    const literals = Array.from({ length: random(8) ? random(40) : random(700) }, () => random(256));
    if (at === 0 && !literals.length) literals.push(7);
    data.push(...literals);
    const match = random(8) ? random(30) : random(900);
    const distance = 1 + random(Math.min(data.length, random(2) ? 20 : 65_535));
    const isLast = at === sequences;
    stored.push((Math.min(15, literals.length) << 4) | (isLast ? 0 : Math.min(15, match)), ...more(literals.length), ...literals);
    if (isLast) break;
    stored.push(distance & 255, distance >> 8, ...more(match));
    for (let i = 0; i < match + 4; i++) data.push(data[data.length - distance]!);
  }
  return { stored, data };
}

/** What the loops in TypeScript say of a block; null if it is damaged. */
function plain(stored: Uint8Array, size: number): Uint8Array | null {
  const out = new Uint8Array(size);
  try {
    decodeBlock(stored, 0, out, "a block");
  } catch {
    return null;
  }
  return out;
}

/** Whether both are damaged, or the same bytes; comparing elements one by one is too slow for `toEqual`. */
function isSame(a: Uint8Array | null | undefined, b: Uint8Array | null): boolean {
  if (!a || !b) return a === b;
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

describe("WebAssembly does what TypeScript does", () => {
  it("sums", () => {
    for (const length of [241, 256, 1024, 1025, 1088, 65_536, 65_537, 65_600, 131_072, 262_144, 300_001]) {
      const bytes = Uint8Array.from({ length: length + 1 }, () => random(256)).subarray(1);
      expect([...fastSums(bytes)!], String(length)).toEqual([...plainSums(bytes)]);
    }
  });

  it("blocks of LZ4", () => {
    for (let run = 0; run < 300; run++) {
      const { stored, data } = block(random(40));
      const [bytes, expected] = [Uint8Array.from(stored), Uint8Array.from(data)];
      expect(isSame(plain(bytes, data.length), expected)).toBe(true);
      expect(isSame(fastBlock(bytes, data.length), expected)).toBe(true);
      for (let way = 0; way < 20; way++) {
        const damaged = bytes.slice(0, random(4) ? bytes.length : random(bytes.length));
        if (damaged.length) damaged[random(damaged.length)] = random(256);
        const size = random(4) ? data.length : random(2 * data.length);
        expect(isSame(fastBlock(damaged, size), plain(damaged, size))).toBe(true);
      }
    }
  });
});
