/** Boxes: four numbers for each object, in the modes and units of the tensor's `coords`. */

import type { Size } from "../camera";
import { finite, leftOut, type Family, type Item } from "./types";

export interface Edges {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** Return the edges of a box in pixels, whatever way it is stored. */
export function edges(box: number[], coords: { type: string; mode: string } | null, size: Size): Edges {
  const [a, b, c, d] = box as [number, number, number, number];
  const mode = (coords?.mode ?? "LTWH").toUpperCase();
  const found =
    mode === "CCWH" ? [a - c / 2, b - d / 2, a + c / 2, b + d / 2] : mode === "LTRB" ? [a, b, c, d] : [a, b, a + c, b + d];
  const [x, y] = coords?.type === "fractional" ? [size.width, size.height] : [1, 1];
  const [left, top, right, bottom] = found as [number, number, number, number];
  return {
    left: Math.min(left, right) * x, top: Math.min(top, bottom) * y,
    right: Math.max(left, right) * x, bottom: Math.max(top, bottom) * y,
  };
}

export const boxes: Family = ({ tensor, value, size, note, beside, mark }) => {
  const rows = Array.isArray(value) ? (typeof value[0] === "number" ? [value] : value) : [];
  const of = beside(rows.length);
  const items: Item[] = [];
  let odd = 0;
  let broken = 0;
  rows.forEach((row, index) => {
    const box = finite(row);
    if (!box) broken += 1;
    else if (box.length !== 4) odd += 1;
    else {
      const found = mark(index, of);
      if (found) items.push({ ...found, is: "box", ...edges(box, tensor.coords, size) });
    }
  });
  if (odd) note(leftOut(tensor, odd, "boxes that are not four numbers are"));
  if (broken) note(leftOut(tensor, broken, "boxes with a number that is not finite are"));
  return items;
};
