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
