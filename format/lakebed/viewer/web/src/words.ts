/** How numbers, sizes, times and values are written. */

import type { Cell, Json, TensorMeta } from "./types";

const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const decimals = new Intl.NumberFormat("en", { maximumSignificantDigits: 6, useGrouping: false });
const shorts = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

export function count(value: number | null): string {
  return value === null ? "–" : numbers.format(value);
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A number in few letters: 1.2M, 0.00125. */
export function short(value: number | string): string {
  if (typeof value === "string") return value;
  return Math.abs(value) >= 10_000 ? shorts.format(value) : decimals.format(value);
}

/** A number with all its digits. */
export function whole(value: number): string {
  const isPlain = Math.abs(value) >= 1e-6 && Math.abs(value) < 1e15;
  return isPlain ? value.toLocaleString("en", { maximumFractionDigits: 20 }) : String(value);
}

export function bytes(value: number | null): string {
  if (value === null) return "–";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) [value, at] = [value / 1000, at + 1];
  return `${value >= 100 || at === 0 ? value.toFixed(0) : value.toFixed(1)} ${units[at]}`;
}

/** Seconds since 1970 as `2026-01-31 12:00`, in the zone of the reader. */
export function moment(seconds: number | null): string {
  if (seconds === null) return "–";
  const date = new Date(seconds * 1000);
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** How long ago: `5 min ago`; days as a date. */
export function ago(seconds: number | null, now = Date.now() / 1000): string {
  if (seconds === null) return "–";
  const passed = now - seconds;
  if (passed < 60) return "just now";
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  if (passed < 86_400) return `${Math.floor(passed / 3600)} h ago`;
  if (passed < 7 * 86_400) return `${Math.floor(passed / 86_400)} d ago`;
  return moment(seconds).slice(0, 10);
}

export function shape(value: (number | null)[]): string {
  return value.map((one) => one ?? "·").join(" × ");
}

/** A cell as a table writes it in one line. */
export interface Shown {
  text: string;
  how: "number" | "text" | "labels" | "none" | "quiet" | "error" | "later";
  labels?: string[];
}

export function shown(cell: Cell | undefined, column: TensorMeta): Shown {
  if (cell === undefined) return { text: "", how: "later" };
  if (cell === null) return { text: "null", how: "none" };
  if ("error" in cell) return { text: cell.error, how: "error" };
  if ("s" in cell) return { text: cell.s.length ? shape(cell.s) : "empty", how: "quiet" };
  const value = cell.v;
  if (value === null) return { text: "null", how: "none" };
  if (column.kind === "label") {
    const labels = (Array.isArray(value) ? value.flat(4) : [value]).map((one) =>
      typeof one === "number" ? (column.class_names[one] ?? String(one)) : line(one as Json),
    );
    if (column.sequence) return { ...times(labels), how: "labels" };
    return { text: labels.join(", "), how: "labels", labels };
  }
  if (typeof value === "number") return { text: Number.isInteger(value) ? String(value) : decimals.format(value), how: "number" };
  if (typeof value === "boolean") return { text: String(value), how: "text" };
  if (typeof value === "string") {
    if (column.logical) return { text: value.replace("T", " ").replace(/\.0+(?=$|Z|\+)/, ""), how: "number" };
    if (/^(u?int|float)/.test(column.dtype) && /^-?[\d.]+$/.test(value)) return { text: value, how: "number" };
    return { text: value.slice(0, 400).replace(/\s+/g, " "), how: value ? "text" : "quiet" };
  }
  if (column.kind === "bbox" && Array.isArray(value)) return { text: plural(value.length, "box", "boxes"), how: "quiet" };
  if (["polygon", "point", "keypoints"].includes(column.kind) && Array.isArray(value)) {
    return { text: plural(value.length, "item"), how: "quiet" };
  }
  return { text: line(value), how: "text" };
}

/** Each label of a sequence once, with how many of its items have it. */
function times(all: string[]): { text: string; labels: string[] } {
  const counts = new Map<string, number>();
  for (const one of all) counts.set(one, (counts.get(one) ?? 0) + 1);
  const labels = [...counts].map(([one, many]) => (many > 1 ? `${one} × ${count(many)}` : one));
  return { text: labels.join(", "), labels };
}

function line(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value).slice(0, 400);
}

/** What a column holds, in few words: its htype, and the type of its numbers. */
export function typeOf(column: TensorMeta): string {
  const htype = column.htype === "generic" ? "" : column.htype;
  const dtype = column.logical ?? (["text", "json", "label"].includes(column.kind) ? "" : column.dtype);
  return [htype, dtype].filter(Boolean).join(" ");
}
