/** What the values of a column are like, counted in the page. */

import type { Tensor } from "../reader/src";
import { kindOf } from "./described";
import { named, textOf } from "./query_text";
import type { Json, Stats } from "./types";

const MOST_ROWS = 1_000_000;
const AT_ONCE = 65_536;
const MOST_TOP = 200;
const BINS = 50;
const MOST_LETTERS = 200;

/** Statistics of a tensor, of all rows or of some. */
export async function statsOf(tensor: Tensor, rows: Int32Array | null, signal?: AbortSignal): Promise<Stats> {
  const own = rows?.filter((row) => row < tensor.length) ?? null;
  const count = own?.length ?? tensor.length;
  const kind = kindOf(tensor);
  if (tensor.isSequence || !["scalar", "label", "text"].includes(kind)) return blankOf(tensor.name, count);
  const counter = new Counter(tensor.name, count);
  for (let start = 0; start < Math.min(count, MOST_ROWS); ) {
    let stop = Math.min(count, MOST_ROWS, start + AT_ONCE);
    if (own !== null) for (stop = start + 1; stop < Math.min(count, start + AT_ONCE) && own[stop] === own[stop - 1]! + 1; stop++);
    const first = own?.[start] ?? start;
    for (const value of await tensor.rows(first, first + stop - start, signal)) {
      if (value === null) counter.stats.nulls++;
      else if (value.kind === "text") counter.add(value.text);
      else if (value.kind === "array") for (const one of value.data) counter.add(Number(one));
    }
    start = stop;
  }
  return counter.told(kind === "scalar" && !tensor.info.logical_type, tensor.classNames, kind === "scalar");
}

/** Statistics of values that a query computed. */
export function statsOfValues(name: string, values: Json[], classNames: string[]): Stats {
  const counter = new Counter(name, values.length);
  for (const value of values) {
    if (value === null) counter.stats.nulls++;
    else if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") counter.add(typeof value === "boolean" ? Number(value) : value);
    else if (classNames.length && Array.isArray(value)) for (const one of value) counter.add(Number(one));
    else return blankOf(name, values.length);
  }
  return counter.told(!classNames.length, classNames, !classNames.length && values.every((value) => typeof value !== "string"));
}

function blankOf(name: string, rows: number): Stats {
  return {
    ...{ tensor: name, rows, nulls: 0, distinct: null, min: null, max: null, mean: null },
    ...{ histogram: null, top: null, shapes: null, sampled: rows > MOST_ROWS },
  };
}

class Counter {
  readonly stats: Stats;
  private readonly counts = new Map<number | string, number>();

  constructor(
    private readonly name: string,
    rows: number,
  ) {
    this.stats = blankOf(name, rows);
  }

  add(value: number | string): void {
    this.counts.set(value, (this.counts.get(value) ?? 0) + 1);
  }

  /** What was counted, the commonest values with the condition that chooses their rows. */
  told(isWritten: boolean, names: string[], isNumber: boolean): Stats {
    const found = { ...this.stats, distinct: this.counts.size };
    const ordered = [...this.counts].sort((a, b) => b[1] - a[1]).slice(0, MOST_TOP);
    if (!isNumber) return { ...found, top: ordered.map(([value, count]) => this.common(value, count, names)) };
    const counted = numbers(this.counts as Map<number, number>);
    const isFew = isWritten && this.counts.size <= BINS && ordered.every(([value]) => Number.isInteger(value));
    return { ...found, ...counted, ...(isFew ? { top: ordered.map(([value, count]) => this.common(value, count, [])) } : {}) };
  }

  private common(value: number | string, count: number, names: string[]): NonNullable<Stats["top"]>[number] {
    if (this.name.includes('"') || this.name.includes("\n")) return { label: String(value), count, condition: "" };
    const column = named(this.name);
    if (typeof value === "string") return { label: value.slice(0, MOST_LETTERS), count, condition: `${column} = ${textOf(value)}` };
    const label = names[value] ?? `${value}`;
    return { label, count, condition: names.length ? `contains(${column}, ${names[value] === undefined ? value : textOf(label)})` : `${column} = ${value}` };
  }
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
