/**
 * Points, triangles and edges drawn into pixels by the page itself.
 *
 * A million points take some 10 ms of one core, with and without a graphics card: a browser that draws by software takes
 * several times as long for the same points in WebGL.
 */

/** Pixels that are drawn into: colour, nearness, and the number of the point that is there, -1 for none. */
export interface Frame {
  width: number;
  height: number;
  pixels: Uint32Array<ArrayBuffer>;
  near: Float32Array;
  ids: Int32Array;
}

/** From a place to the frame: rows of x, y and nearness, each of four factors. */
export type Matrix = readonly number[];

export function frameOf(width: number, height: number): Frame {
  return { width, height, pixels: new Uint32Array(width * height), near: new Float32Array(width * height), ids: new Int32Array(width * height) };
}

/** Empty a frame; points of two axes need no nearness. */
export function cleared(frame: Frame, isDeep = true): Frame {
  frame.pixels.fill(0);
  if (isDeep) frame.near.fill(-Infinity);
  frame.ids.fill(-1);
  return frame;
}

/** A colour of a pixel: red in the lowest byte. */
export function packed(red: number, green: number, blue: number, alpha = 255): number {
  return ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Draw points of two or three axes as squares; those of two in their order, those of three by nearness. */
export function points(frame: Frame, places: ArrayLike<number>, axes: 2 | 3, colours: Uint32Array, m: Matrix, side: number): void {
  const { width, height, pixels, near, ids } = frame;
  const [a, b, c, d, e, f, g, h, i, j, k, l] = m as unknown as [number, number, number, number, number, number, number, number, number, number, number, number];
  const count = Math.floor(places.length / axes);
  const [before, behind] = [(side - 1) >> 1, side >> 1];
  for (let at = 0, from = 0; at < count; at += 1, from += axes) {
    const x = places[from]!;
    const y = places[from + 1]!;
    const z = axes === 3 ? places[from + 2]! : 0;
    const u = a * x + b * y + c * z + d;
    const v = e * x + f * y + g * z + h;
    if (!(u >= 0 && u < width && v >= 0 && v < height)) continue; // nor what is no number
    const depth = axes === 3 ? i * x + j * y + k * z + l : 0;
    const [column, row] = [u | 0, v | 0];
    if (side === 1) {
      const place = row * width + column;
      if (axes === 3) {
        if (depth <= near[place]!) continue;
        near[place] = depth;
      }
      pixels[place] = colours[at]!;
      ids[place] = at;
      continue;
    }
    const right = Math.min(width - 1, column + behind);
    const bottom = Math.min(height - 1, row + behind);
    for (let down = Math.max(0, row - before); down <= bottom; down += 1) {
      for (let place = down * width + Math.max(0, column - before); place <= down * width + right; place += 1) {
        if (axes === 3) {
          if (depth <= near[place]!) continue;
          near[place] = depth;
        }
        pixels[place] = colours[at]!;
        ids[place] = at;
      }
    }
  }
}

/** Draw triangles, darker the more they turn away; corners are numbers of points. */
export function triangles(frame: Frame, places: Float32Array, corners: Uint32Array, colours: Uint32Array, m: Matrix): void {
  const { width, height, pixels, near } = frame;
  const corner = (at: number): [number, number, number] => {
    const [x, y, z] = [places[3 * at]!, places[3 * at + 1]!, places[3 * at + 2]!];
    const on = (row: number): number => m[4 * row]! * x + m[4 * row + 1]! * y + m[4 * row + 2]! * z + m[4 * row + 3]!;
    return [on(0), on(1), on(2)];
  };
  for (let at = 0; at + 2 < corners.length; at += 3) {
    const [p, q, r] = [corner(corners[at]!), corner(corners[at + 1]!), corner(corners[at + 2]!)];
    const [e1, e2] = [[q[0] - p[0], q[1] - p[1], q[2] - p[2]] as const, [r[0] - p[0], r[1] - p[1], r[2] - p[2]] as const];
    const area = e1[0] * e2[1] - e1[1] * e2[0];
    const normal = [e1[1] * e2[2] - e1[2] * e2[1], e1[2] * e2[0] - e1[0] * e2[2], area];
    const light = 0.35 + (0.65 * Math.abs(area)) / (Math.hypot(...normal) || 1);
    if (!(Math.abs(area) > 0)) continue; // seen from its edge, or no numbers
    const colour = colours[corners[at]!]!;
    const shade = packed((colour & 255) * light, ((colour >> 8) & 255) * light, ((colour >> 16) & 255) * light);
    const top = Math.max(0, Math.ceil(Math.min(p[1], q[1], r[1]) - 0.5));
    const bottom = Math.min(height - 1, Math.floor(Math.max(p[1], q[1], r[1]) - 0.5));
    const left = Math.max(0, Math.ceil(Math.min(p[0], q[0], r[0]) - 0.5));
    const right = Math.min(width - 1, Math.floor(Math.max(p[0], q[0], r[0]) - 0.5));
    for (let y = top; y <= bottom; y += 1) {
      for (let x = left; x <= right; x += 1) {
        const [dx, dy] = [x + 0.5 - p[0], y + 0.5 - p[1]];
        const [s, t] = [(dx * e2[1] - dy * e2[0]) / area, (dy * e1[0] - dx * e1[1]) / area];
        if (s < 0 || t < 0 || s + t > 1) continue;
        const depth = p[2] + s * e1[2] + t * e2[2];
        const place = y * width + x;
        if (depth <= near[place]!) continue;
        near[place] = depth;
        pixels[place] = shade;
      }
    }
  }
}

/** The number of the point nearest to a pixel, no more than `reach` away; null where none is. */
export function pointAt(frame: Frame, x: number, y: number, reach: number): number | null {
  let [found, least]: [number | null, number] = [null, reach * reach + 1];
  for (let row = Math.max(0, y - reach); row <= Math.min(frame.height - 1, y + reach); row += 1) {
    for (let column = Math.max(0, x - reach); column <= Math.min(frame.width - 1, x + reach); column += 1) {
      const [id, away] = [frame.ids[row * frame.width + column]!, (row - y) ** 2 + (column - x) ** 2];
      if (id >= 0 && away < least) [found, least] = [id, away];
    }
  }
  return found;
}

/** Where one looks from: turn around the upright axis, tilt, zoom against what fits, and the move in shares of the view. */
export interface Orbit {
  turn: number;
  tilt: number;
  zoom: number;
  x: number;
  y: number;
}

export const FRONT: Readonly<Orbit> = Object.freeze({ turn: 0.6, tilt: 0.5, zoom: 1, x: 0, y: 0 });

/** The middle of places of three axes, and how far others are from it; what is no number does not count. */
export function extent(places: ArrayLike<number>): { middle: [number, number, number]; radius: number } {
  const [low, high] = [[Infinity, Infinity, Infinity], [-Infinity, -Infinity, -Infinity]];
  for (let at = 0; at < places.length; at += 1) {
    const one = places[at]!;
    if (!Number.isFinite(one)) continue;
    if (one < low[at % 3]!) low[at % 3] = one;
    if (one > high[at % 3]!) high[at % 3] = one;
  }
  const middle = low.map((one, axis) => (one <= high[axis]! ? (one + high[axis]!) / 2 : 0)) as [number, number, number];
  const radius = Math.hypot(...low.map((one, axis) => (one <= high[axis]! ? (high[axis]! - one) / 2 : 0)));
  return { middle, radius: radius || 1 };
}

/** The matrix of an orbit: z is upright, and parallel lines stay so. */
export function matrixOf({ turn, tilt, zoom, x, y }: Orbit, middle: readonly number[], radius: number, width: number, height: number): number[] {
  const scale = (zoom * Math.min(width, height)) / (2 * radius);
  const [ct, st, cp, sp] = [Math.cos(turn), Math.sin(turn), Math.cos(tilt), Math.sin(tilt)];
  const rows = [[ct, st, 0], [st * sp, -ct * sp, -cp], [st * cp, -ct * cp, sp]]; // right, down, towards the eye
  return rows.flatMap((row, at) => {
    const scaled = row.map((one) => one * scale);
    const shift = at === 0 ? width * (0.5 + x) : at === 1 ? height * (0.5 + y) : 0;
    return [...scaled, shift - scaled.reduce((sum, one, axis) => sum + one * middle[axis]!, 0)];
  });
}

/** The numbers of an orbit, zoomed so that what is at a place of the view, in shares from its middle, stays there. */
export function orbited({ turn, tilt, zoom, x, y }: Orbit, { factor, x: atX, y: atY }: { factor: number; x: number; y: number }): number[] {
  const next = Math.min(1e6, Math.max(0.05, zoom * factor));
  const by = next / zoom;
  return [turn, tilt, next, atX - (atX - x) * by, atY - (atY - y) * by];
}
