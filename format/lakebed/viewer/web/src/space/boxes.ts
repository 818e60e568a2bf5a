/** Boxes in space: eight corners each, from the columns that conventions have. */

/** Pairs of corners that edges join; corners 0 to 3 are the lower ones. */
export const EDGES = [0, 1, 1, 2, 2, 3, 3, 0, 4, 5, 5, 6, 6, 7, 7, 4, 0, 4, 1, 5, 2, 6, 3, 7] as const;

/**
 * Corners of boxes, 24 numbers each: of arrays (boxes, 8, 3) or 24 columns they are stored; else columns are the centre,
 * the size, and the angle around the upright axis in radians, the last of nine (three angles) or the seventh.
 */
export function cornersOf(values: ArrayLike<number | bigint>, shape: number[]): Float64Array {
  const columns = shape.slice(1).reduce((a, b) => a * b, 1);
  const count = shape.length > 1 && columns > 0 ? Math.floor(values.length / columns) : 0;
  if (columns === 24) return Float64Array.from({ length: 24 * count }, (_, at) => Number(values[at]));
  const found = new Float64Array(columns < 6 ? 0 : 24 * count);
  for (let box = 0; box < found.length / 24; box += 1) {
    const one = (column: number): number => (column < columns ? Number(values[box * columns + column]) : 0);
    const angle = one(columns === 9 ? 8 : 6);
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    for (let corner = 0; corner < 8; corner += 1) {
      const dx = ([0, 3].includes(corner % 4) ? -0.5 : 0.5) * one(3);
      const dy = (corner % 4 < 2 ? -0.5 : 0.5) * one(4);
      const dz = (corner < 4 ? -0.5 : 0.5) * one(5);
      found.set([one(0) + dx * cos - dy * sin, one(1) + dx * sin + dy * cos, one(2) + dz], 24 * box + 3 * corner);
    }
  }
  return found;
}
