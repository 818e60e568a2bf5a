/** Values of many samples at once, from the bytes of their chunks. */

import type { Run } from "./tensor";
import { numbers, type Numbers } from "./values";

const UTF8 = new TextDecoder("utf-8", { fatal: true });

/** The numbers of all samples of runs, one behind the other. */
export function numbersOf(runs: Run[], dtype: string): Numbers {
  const parts = runs.map(({ data, ends, count }) => data.subarray(ends[0], ends[count]));
  if (parts.length === 1) return numbers(parts[0]!, dtype);
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return numbers(whole, dtype);
}

/** Texts of runs; those of plain letters are cut from one text. */
export function textsOf(runs: Run[]): string[] {
  const found = new Array<string>(runs.reduce((sum, { count }) => sum + count, 0));
  let at = 0;
  for (const { data, ends, count } of runs) {
    const begin = ends[0]!;
    const bytes = data.subarray(begin, ends[count]);
    const whole = UTF8.decode(bytes);
    const isPlain = whole.length === bytes.length;
    for (let i = 0; i < count; i++) found[at++] = isPlain ? whole.slice(ends[i]! - begin, ends[i + 1]! - begin) : UTF8.decode(data.subarray(ends[i], ends[i + 1]));
  }
  return found;
}

/** Stretches of rows that follow each other: the first and the last place of each. */
export function stretches(rows: ArrayLike<number>): [first: number, last: number][] {
  const found: [number, number][] = [];
  for (let i = 0; i < rows.length; i++) {
    const last = found[found.length - 1];
    if (last !== undefined && rows[i] === rows[last[1]]! + 1) last[1] = i;
    else found.push([i, i]);
  }
  return found;
}
