/** What the values of a column are like, counted in the page. */

import type { Tensor } from "../reader/src";
import { kindOf } from "./described";
import type { Stats } from "./types";

const MOST_ROWS = 1_000_000;
const AT_ONCE = 65_536;
const MOST_TOP = 200;
const BINS = 50;

export async function statsOf(tensor: Tensor, signal?: AbortSignal): Promise<Stats> {
  const blank: Stats = {
    ...{ tensor: tensor.name, rows: tensor.length, nulls: 0, distinct: null, min: null, max: null, mean: null },
    ...{ histogram: null, top: null, shapes: null, sampled: tensor.length > MOST_ROWS },
  };
  const kind = kindOf(tensor);
  if (tensor.isSequence || !["scalar", "label", "text"].includes(kind)) return blank;
  const counts = new Map<number | string, number>();
  const stop = Math.min(tensor.length, MOST_ROWS);
  for (let start = 0; start < stop; start += AT_ONCE) {
    for (const value of await tensor.rows(start, Math.min(stop, start + AT_ONCE), signal)) {
      if (value === null) blank.nulls++;
      else if (value.kind === "text") add(counts, value.text);
      else if (value.kind === "array") for (const one of value.data) add(counts, Number(one));
    }
  }
  const found = { ...blank, distinct: counts.size };
  if (kind === "scalar") return { ...found, ...numbers(counts as Map<number, number>) };
  const names = tensor.classNames;
  const ordered = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MOST_TOP);
  // Conditions are for queries, which this page does not answer.
  return { ...found, top: ordered.map(([value, count]) => ({ label: typeof value === "number" ? (names[value] ?? `${value}`) : value, count, condition: "" })) };
}

function add(counts: Map<number | string, number>, value: number | string): void {
  counts.set(value, (counts.get(value) ?? 0) + 1);
}

function numbers(counts: Map<number, number>): Partial<Stats> {
  const finite = [...counts].filter(([value]) => Number.isFinite(value));
  if (finite.length === 0) return {};
  let [least, most, sum, total] = [Infinity, -Infinity, 0, 0];
  for (const [value, count] of finite) {
    [least, most] = [Math.min(least, value), Math.max(most, value)];
    sum += value * count;
    total += count;
  }
  const isWhole = finite.every(([value]) => Number.isInteger(value));
  const width = isWhole ? Math.ceil((most - least + 1) / BINS) : (most - least) / BINS || 1;
  const bins = isWhole ? Math.ceil((most - least + 1) / width) : least === most ? 1 : BINS;
  const heights = new Array<number>(bins).fill(0);
  for (const [value, count] of finite) heights[Math.min(bins - 1, Math.floor((value - least) / width))]! += count;
  return { min: least, max: most, mean: sum / total, histogram: { edges: Array.from({ length: bins + 1 }, (_, i) => least + i * width), counts: heights } };
}
