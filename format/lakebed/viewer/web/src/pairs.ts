/** Rows of two versions that are the same row. */

import type { TensorDiff } from "./types";

/**
 * The row of the first version that a row of the second was before; null where the lists of a difference were cut.
 *
 * Rows keep their order: those of the first without the removed are those of the second without the added.
 */
export function rowBefore({ added, removed }: TensorDiff): (row: number) => number | null {
  if (added.count > added.rows.length || removed.count > removed.rows.length) return () => null;
  const [came, went] = [sorted(added.rows), sorted(removed.rows)];
  return (row) => {
    const kept = row - firstOf(came.length, (at) => (came[at] as number) >= row);
    return kept + firstOf(went.length, (at) => (went[at] as number) - at > kept);
  };
}

const sorted = (rows: number[]) => [...rows].sort((a, b) => a - b);

/** The first of some numbers for which a condition holds, that holds for all after it. */
function firstOf(length: number, holds: (at: number) => boolean): number {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

export type Way = "changed" | "removed" | "added";

/** A row that changed: its numbers in both versions, null where it is not there or not known, and the tensors that changed. */
export interface Sample {
  way: Way;
  before: number | null;
  after: number | null;
  tensors: string[];
}

/** Return the rows that differ, each once: changed ones first. */
export function samplesOf(diff: TensorDiff[]): Sample[] {
  const found = new Map<string, Sample>();
  for (const tensor of diff) {
    const old = rowBefore(tensor);
    const take = (way: Way, before: number | null, after: number | null) => {
      const key = `${before} ${after}`;
      const sample = found.get(key) ?? { way, before, after, tensors: [] };
      sample.tensors.push(tensor.name);
      found.set(key, sample);
    };
    for (const row of tensor.updated.rows) take("changed", old(row), row);
    for (const row of tensor.removed.rows) take("removed", row, null);
    for (const row of tensor.added.rows) take("added", null, row);
  }
  const rank = { changed: 0, removed: 1, added: 2 };
  const place = (one: Sample) => one.after ?? one.before ?? 0;
  return [...found.values()].sort((x, y) => rank[x.way] - rank[y.way] || place(x) - place(y));
}

/** Return the row at the right that has the id of each row at the left, -1 where none has. */
export function joined(left: BigUint64Array, right: BigUint64Array): Int32Array {
  const found = new Int32Array(left.length).fill(-1);
  let same = 0; // mostly rows were only added at the end
  while (same < left.length && same < right.length && left[same] === right[same]) found[same] = same++;
  const places = new Map<bigint, number>();
  for (let at = same; at < right.length; at += 1) places.set(right[at] as bigint, at);
  for (let at = same; at < left.length; at += 1) found[at] = places.get(left[at] as bigint) ?? -1;
  return found;
}

/** A condition that chooses the rows of a span of a histogram; dates and times are written as texts. */
export function spanCondition(name: string, low: number, high: number, isLast: boolean, logical: string | null): string | null {
  if (logical === "time" || logical === "duration") return null;
  // Few digits: the lower ends are rounded down, and so is the upper end that is the lower one of the next span.
  const unit = 10 ** (Math.floor(Math.log10(Math.max(Math.abs(low), Math.abs(high), 1e-300))) - 5);
  const isShort = unit < 1 && unit > 1e-15 && high - low > 10 * unit;
  const write = (value: number) => {
    if (!logical) {
      if (!isShort || Number.isInteger(value)) return String(value);
      const steps = value / unit;
      return String(Number(((isLast && value === high ? Math.ceil(steps) : Math.floor(steps)) * unit).toPrecision(6)));
    }
    const text = new Date(value * 1000).toISOString().replace("T", " ").replace("Z", "");
    return `'${logical === "date" ? text.slice(0, 10) : text}'`;
  };
  return `${name} >= ${write(low)} and ${name} ${isLast ? "<=" : "<"} ${write(high)}`;
}
