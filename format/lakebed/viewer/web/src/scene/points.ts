/** Points, and key points of COCO: columns of x, y and visibility, an object in each column. */

import type { Json } from "../types";
import { finite, leftOut, type Family, type Item, type Point } from "./types";

export const points: Family = ({ tensor, value, note, beside, mark }) => {
  const rows = Array.isArray(value) ? (typeof value[0] === "number" ? [value] : value) : [];
  const of = beside(rows.length);
  const items: Item[] = [];
  let broken = 0;
  rows.forEach((row, index) => {
    const [x, y] = finite(row) ?? [];
    const found = x === undefined || y === undefined ? null : mark(index, of);
    if (x === undefined || y === undefined) broken += 1;
    else if (found) items.push({ ...found, is: "points", points: [{ x, y, seen: true, name: found.name }], joins: [] });
  });
  if (broken) note(leftOut(tensor, broken, "points without two finite numbers are"));
  return items;
};

export const keypoints: Family = ({ tensor, value, note, beside, mark }) => {
  const rows = Array.isArray(value) ? (typeof value[0] === "number" ? value.map((one) => [one]) : value) : [];
  const columns = rows.every(Array.isArray) ? rows[0] : null;
  const count = Array.isArray(columns) ? columns.length : 0;
  if (rows.length % 3 || rows.length === 0) {
    if (rows.length) note(`${tensor.name}: ${rows.length} rows are no triples of x, y and visibility, not drawn`);
    return [];
  }
  const of = beside(count);
  const at = (row: number, column: number): Json => (rows[row] as Json[])[column] ?? null;
  const items: Item[] = [];
  let broken = 0;
  for (let index = 0; index < count; index += 1) {
    const found: Point[] = [];
    for (let row = 0; row < rows.length; row += 3) {
      const triple = finite([at(row, index), at(row + 1, index), at(row + 2, index)]);
      if (!triple) broken += 1;
      const [x, y, seen] = (triple ?? [0, 0, 0]) as [number, number, number];
      found.push({ x, y, seen: seen > 0 ? seen >= 2 : null, name: tensor.keypoints[row / 3] ?? `${row / 3}` });
    }
    const joins = tensor.skeleton.filter((pair) => pair.every((one) => (found[one]?.seen ?? null) !== null));
    const marked = found.some((one) => one.seen !== null) ? mark(index, of) : null;
    if (marked) items.push({ ...marked, is: "points", points: found, joins });
  }
  if (broken) note(leftOut(tensor, broken, "key points with a number that is not finite are"));
  return items;
};
