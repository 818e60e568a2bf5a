/** A map of points: what it shows of which tensors, where points are in the view, their colours, and which lie in a lasso. */

import { channels, colourOf } from "../colours";
import { named } from "../query_text";
import { packed } from "../space/raster";
import type { Session } from "../session.svelte";
import type { TensorMeta } from "../types";
import { heat } from "../values/plot";

/** Whether the samples of a tensor are vectors of one length. */
export function isVector(one: TensorMeta): boolean {
  return one.kind === "array" && !one.sequence && one.max_shape.length === 1 && (one.max_shape[0] ?? 0) >= 2 && /int|float/.test(one.dtype);
}

/** Tensors that a map can be of, embeddings first. */
export function vectors(columns: TensorMeta[]): TensorMeta[] {
  const found = columns.filter(isVector);
  return [...found.filter((one) => one.htype === "embedding"), ...found.filter((one) => one.htype !== "embedding")];
}

/** Open the map of a dataset with vectors, or close it. */
export function toggleMap(session: Session): void {
  const { map } = session.state;
  if (map || vectors(session.meta?.tensors ?? []).length) session.change({ map: map ? null : { tensor: "", colour: "", view: [] }, row: null, compare: null, diff: null });
}

/** Tensors that can colour points: labels first. */
export function colouring(columns: TensorMeta[]): TensorMeta[] {
  const [labels, numbers] = (["label", "scalar"] as const).map((kind) => columns.filter((one) => one.kind === kind && !one.sequence && /int|float|bool/.test(one.dtype)));
  return [...labels!, ...numbers!];
}

/** Where one looks: the place in the middle of the view, and pixels for each unit; 0 shows all. */
export interface Look {
  scale: number;
  x: number;
  y: number;
}

/** The look that shows all points; a few that lie far out do not make the rest small. */
export function fitted(places: Float32Array, width: number, height: number): Look {
  const spans = [0, 1].map((axis) => {
    const step = Math.max(1, Math.floor(places.length / 2 / 20_000));
    const some: number[] = [];
    for (let at = 0; 2 * at < places.length; at += step) if (Number.isFinite(places[2 * at + axis])) some.push(places[2 * at + axis]!);
    some.sort((a, b) => a - b);
    const [low, high] = [some[Math.floor(some.length * 0.001)] ?? 0, some[Math.ceil(some.length * 0.999) - 1] ?? 1];
    return { middle: (low + high) / 2, size: high - low || 1 };
  }) as [{ middle: number; size: number }, { middle: number; size: number }];
  return { scale: 0.9 * Math.min(width / spans[0].size, height / spans[1].size), x: spans[0].middle, y: spans[1].middle };
}

/** The matrix of a look, y upwards. */
export function matrixOfLook({ scale, x, y }: Look, width: number, height: number): number[] {
  return [scale, 0, 0, width / 2 - scale * x, 0, -scale, 0, height / 2 + scale * y, 0, 0, 0, 0];
}

const NONE = [0x9a, 0xa3, 0xae] as const;

/** Colours of points by the label or number of each row; grey where there is none. */
export function coloursOf(values: ArrayLike<number> | null, by: TensorMeta | null, count: number, chosen: Readonly<Record<string, string>>, limits: [number, number]): Uint32Array {
  const found = new Uint32Array(count).fill(packed(...NONE));
  if (!values || !by) return found;
  if (by.kind === "scalar") {
    const shades = heat(values, ...limits);
    for (let at = 0; at < count; at += 1) if (shades[4 * at + 3]) found[at] = packed(shades[4 * at]!, shades[4 * at + 1]!, shades[4 * at + 2]!);
    return found;
  }
  const known = new Map<number, number>();
  for (let at = 0; at < count; at += 1) {
    const label = values[at]!;
    if (Number.isNaN(label) || label === undefined) continue;
    let colour = known.get(label);
    if (colour === undefined) known.set(label, (colour = packed(...channels(colourOf(by.class_names[label] ?? String(label), chosen)))));
    found[at] = colour;
  }
  return found;
}

/** Colours where only some points stand out: the others become faint. */
export function dimmed(colours: Uint32Array, isBright: (at: number) => boolean): Uint32Array {
  return colours.map((colour, at) => (isBright(at) ? colour : (colour & 0xffffff) | 0x28000000) >>> 0);
}

/** The numbers of some rows; those of all others are NaN, so that they are not there. */
export function only(values: Float32Array, rows: Int32Array, axes: number, step: number): Float32Array {
  const found = new Float32Array(values.length).fill(NaN);
  for (const row of rows) if (row % step === 0) for (let axis = 0; axis < axes; axis += 1) found[(row / step) * axes + axis] = values[(row / step) * axes + axis]!;
  return found;
}

/** Points inside a closed line, in pixels of the view; `mask` has a byte for each pixel, not 0 inside. */
export function inside(places: Float32Array, axes: 2 | 3, m: readonly number[], mask: Uint8Array, width: number, height: number): number[] {
  const found: number[] = [];
  for (let at = 0; axes * at < places.length; at += 1) {
    const [x, y, z] = [places[axes * at]!, places[axes * at + 1]!, axes === 3 ? places[axes * at + 2]! : 0];
    const u = m[0]! * x + m[1]! * y + m[2]! * z + m[3]!;
    const v = m[4]! * x + m[5]! * y + m[6]! * z + m[7]!;
    if (u >= 0 && u < width && v >= 0 && v < height && mask[Math.floor(v) * width + Math.floor(u)]) found.push(at);
  }
  return found;
}

/** Side of a point, in pixels of the frame: smaller, the more there are. */
export function sideOf(count: number, ratio: number): number {
  return Math.max(1, Math.round((count > 200_000 ? 1 : count > 20_000 ? 2 : count > 2_000 ? 4 : 7) * ratio));
}

/** A query for the rows whose vectors are nearest to that of a row. */
export function similarQuery(tensor: string, row: number, metric: "cosine" | "l2"): string {
  const name = named(tensor);
  const order = metric === "cosine" ? `COSINE_SIMILARITY(${name}, DATA(${name}, ${row})) DESC` : `L2_DISTANCE(${name}, DATA(${name}, ${row}))`;
  return `SELECT * ORDER BY ${order} LIMIT 100`;
}
