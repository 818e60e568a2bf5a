/** The plane along which vectors vary most, by the arithmetic of the server's `plane` (viewer/points.py). */

const WORK = 2 ** 30;
const MOST_SAMPLED = 20_000;
const BLOCK = 8; // axes that are followed at once
const ROUNDS = 60;

export interface Plane {
  mean: Float64Array;
  /** Two axes, one after the other. */
  basis: Float64Array;
  /** Part of the variance that they have. */
  share: number;
}

/** Find the plane of vectors that lie one after another; some of them, spread evenly, decide where they are many. */
export function plane(rows: Float32Array, axes: number): Plane {
  const count = Math.floor(rows.length / axes);
  const step = Math.max(1, Math.ceil(count / Math.min(MOST_SAMPLED, Math.max(100, Math.floor(WORK / axes ** 2)))));
  const chosen: Float32Array[] = [];
  for (let at = 0; at < count; at += step) {
    const row = rows.subarray(at * axes, (at + 1) * axes);
    if (row.every(Number.isFinite)) chosen.push(row);
  }
  const mean = new Float64Array(axes);
  for (const row of chosen) for (let axis = 0; axis < axes; axis += 1) mean[axis]! += row[axis]! / chosen.length;
  const spread = scatter(chosen, mean);
  const block = Math.min(BLOCK, axes);
  // Powers of the matrix turn any block of vectors towards its largest axes; a fixed start gives the same picture.
  let vectors = Array.from({ length: block }, (_, at) => Float64Array.from({ length: axes }, (_, axis) => Math.sin((at + 1) * (axis + 1) * 1.7) + (at === axis % block ? 1 : 0)));
  for (let round = 0; round < ROUNDS; round += 1) vectors = orthogonal(vectors.map((one) => times(spread, one)));
  const small = vectors.map((one) => vectors.map((other) => dot(times(spread, one), other)));
  const { values, turns } = jacobi(small);
  const order = values.map((_, at) => at).sort((a, b) => values[b]! - values[a]!).slice(0, 2);
  const basis = new Float64Array(2 * axes);
  order.forEach((from, at) => {
    const found = new Float64Array(axes);
    for (let one = 0; one < block; one += 1) for (let axis = 0; axis < axes; axis += 1) found[axis]! += turns[one]![from]! * vectors[one]![axis]!;
    const largest = found.reduce((most, one) => (Math.abs(one) > Math.abs(most) ? one : most), 0);
    basis.set(largest < 0 ? found.map((one) => -one) : found, at * axes);
  });
  let total = 0;
  for (let axis = 0; axis < axes; axis += 1) total += spread[axis * axes + axis]!;
  return { mean, basis, share: total > 0 ? order.reduce((sum, at) => sum + values[at]!, 0) / total : 1 };
}

/** Places of all vectors on a plane: x and y of each. */
export function projected(rows: Float32Array, axes: number, { mean, basis }: Plane): Float32Array {
  const found = new Float32Array((2 * rows.length) / axes);
  const [first, second] = [basis.subarray(0, axes), basis.subarray(axes)];
  for (let at = 0, from = 0; from < rows.length; at += 2, from += axes) {
    let [x, y] = [0, 0];
    for (let axis = 0; axis < axes; axis += 1) {
      const one = rows[from + axis]! - mean[axis]!;
      x += one * first[axis]!;
      y += one * second[axis]!;
    }
    found[at] = x;
    found[at + 1] = y;
  }
  return found;
}

function scatter(rows: Float32Array[], mean: Float64Array): Float64Array {
  const axes = mean.length;
  const found = new Float64Array(axes * axes);
  const centred = new Float64Array(axes);
  for (const row of rows) {
    for (let axis = 0; axis < axes; axis += 1) centred[axis] = row[axis]! - mean[axis]!;
    for (let one = 0; one < axes; one += 1) {
      const factor = centred[one]!;
      for (let other = one, at = one * axes + one; other < axes; other += 1, at += 1) found[at]! += factor * centred[other]!;
    }
  }
  for (let one = 0; one < axes; one += 1) for (let other = 0; other < one; other += 1) found[one * axes + other] = found[other * axes + one]!;
  return found;
}

function dot(one: ArrayLike<number>, other: ArrayLike<number>): number {
  let sum = 0;
  for (let at = 0; at < one.length; at += 1) sum += one[at]! * other[at]!;
  return sum;
}

function times(matrix: Float64Array, vector: Float64Array<ArrayBuffer>): Float64Array<ArrayBuffer> {
  return vector.map((_, row) => dot(matrix.subarray(row * vector.length, (row + 1) * vector.length), vector));
}

function orthogonal(vectors: Float64Array<ArrayBuffer>[]): Float64Array<ArrayBuffer>[] {
  const found: Float64Array<ArrayBuffer>[] = [];
  for (const vector of vectors) {
    for (const other of found) {
      const share = dot(vector, other);
      for (let at = 0; at < vector.length; at += 1) vector[at]! -= share * other[at]!;
    }
    const length = Math.sqrt(dot(vector, vector));
    found.push(length > 0 ? vector.map((one) => one / length) : vector);
  }
  return found;
}

/** Eigenvalues of a small symmetric matrix, and its eigenvectors as columns. */
function jacobi(matrix: number[][]): { values: number[]; turns: number[][] } {
  const size = matrix.length;
  const turns = matrix.map((_, row) => matrix.map((_, column) => Number(row === column)));
  for (let sweep = 0; sweep < 30; sweep += 1) {
    for (let p = 0; p < size; p += 1) {
      for (let q = p + 1; q < size; q += 1) {
        if (matrix[p]![q] === 0) continue;
        const theta = (matrix[q]![q]! - matrix[p]![p]!) / (2 * matrix[p]![q]!);
        const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(theta, 1));
        const [c, s] = [1 / Math.hypot(t, 1), t / Math.hypot(t, 1)];
        for (const row of matrix) [row[p], row[q]] = [c * row[p]! - s * row[q]!, s * row[p]! + c * row[q]!];
        const [first, second] = [matrix[p]!, matrix[q]!];
        for (let at = 0; at < size; at += 1) [first[at], second[at]] = [c * first[at]! - s * second[at]!, s * first[at]! + c * second[at]!];
        for (const row of turns) [row[p], row[q]] = [c * row[p]! - s * row[q]!, s * row[p]! + c * row[q]!];
      }
    }
  }
  return { values: matrix.map((row, at) => row[at]!), turns };
}
