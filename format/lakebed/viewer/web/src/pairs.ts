/** Rows of two versions that are the same row. */

import type { TensorDiff } from "./types";

/**
 * The row of the first version that a row of the second was before; null where the lists of a difference were cut.
 *
 * Rows keep their order: those of the first without the removed are those of the second without the added.
 */
export function rowBefore(row: number, { added, removed }: TensorDiff): number | null {
  if (added.count > added.rows.length || removed.count > removed.rows.length) return null;
  let before = row - added.rows.filter((one) => one < row).length;
  for (const one of [...removed.rows].sort((a, b) => a - b)) {
    if (one > before) break;
    before += 1;
  }
  return before;
}

/** A condition that chooses the rows of a span of a histogram; dates and times are written as texts. */
export function spanCondition(name: string, low: number, high: number, isLast: boolean, logical: string | null): string | null {
  if (logical === "time" || logical === "duration") return null;
  const write = (value: number) => {
    if (!logical) return String(value);
    const text = new Date(value * 1000).toISOString().replace("T", " ").replace("Z", "");
    return `'${logical === "date" ? text.slice(0, 10) : text}'`;
  };
  return `${name} >= ${write(low)} and ${name} ${isLast ? "<=" : "<"} ${write(high)}`;
}
