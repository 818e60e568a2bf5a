/** Polygons: a list of corners for each; several of one object where a tensor beside them says whose each one is. */

import type { Json } from "../types";
import { finite, leftOut, type Family, type Item } from "./types";

export const polygons: Family = ({ tensor, value, note, beside, mark }) => {
  const parts = Array.isArray(value) ? value : [];
  const of = beside(parts.length);
  const byObject = new Map<number, number[][]>();
  let broken = 0;
  parts.forEach((part, index) => {
    const outlines = rings(part);
    if (!outlines) {
      broken += 1;
      return;
    }
    const object = of.objects?.[index] ?? index;
    byObject.set(object, [...(byObject.get(object) ?? []), ...outlines]);
  });
  if (broken) note(leftOut(tensor, broken, "polygons without three finite corners are"));
  const items: Item[] = [];
  for (const [object, outlines] of byObject) {
    const found = mark(object, of);
    if (found) items.push({ ...found, is: "polygon", parts: outlines });
  }
  return items;
};

/** Return the outlines of one polygon: of corners, of numbers in a row, or of several lists of corners. */
function rings(part: Json): number[][] | null {
  if (!Array.isArray(part) || !part.length) return null;
  if (Array.isArray(part[0]) && Array.isArray(part[0][0])) {
    const found = part.map((one) => rings(one));
    return found.every((one) => one !== null) ? found.flat() : null;
  }
  const flat = finite(part) ?? finite(part.map((corner) => (Array.isArray(corner) ? corner.slice(0, 2) : [null])).flat());
  return flat && flat.length >= 6 && flat.length % 2 === 0 ? [flat] : null;
}
