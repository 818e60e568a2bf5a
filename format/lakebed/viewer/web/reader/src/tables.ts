/** Indexes of a tensor: which chunk a sample is in, which samples a sequence has, which are cut into tiles (format.md 4). */

import { afterVersion, hex64, u64, viewOf, type Bytes } from "./bytes";
import { FormatError, check } from "./errors";

/** First row of ascending numbers that is not below `index`. */
export function rowOf(last: Float64Array | Uint32Array, index: number): number {
  let low = 0;
  let high = last.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (last[middle]! < index) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Chunks of a tensor: names, and the last sample of each; the tiles of a sample all end with it. */
export class ChunkIndex {
  private constructor(
    private readonly ids: Bytes,
    private readonly step: number,
    readonly last: Float64Array,
  ) {}

  static readonly empty = new ChunkIndex(new Uint8Array(0), 8, new Float64Array(0));

  static parse(bytes: Bytes, what: string): ChunkIndex {
    let at = afterVersion(bytes, what);
    const version = String.fromCharCode(...bytes.subarray(1, at));
    let width = 4;
    if (!isBefore(version, [2, 7, 6])) {
      width = bytes[at] ?? 0;
      at++;
    }
    if ((width !== 4 && width !== 8) || (bytes.length - at) % (2 * width) !== 0 || at > bytes.length)
      throw new FormatError(`${what} is no table of chunks`);
    const rows = (bytes.length - at) / (2 * width);
    const view = viewOf(bytes);
    const last = new Float64Array(rows);
    for (let i = 0; i < rows; i++) {
      const place = at + (2 * i + 1) * width;
      last[i] = width === 8 ? u64(view, place, what) : view.getUint32(place, true);
      if (i > 0 && last[i]! < last[i - 1]!) throw new FormatError(`${what} does not ascend`);
    }
    return new ChunkIndex(bytes.subarray(at), width, last);
  }

  get length(): number {
    return this.last.length;
  }

  /** Samples of all chunks. */
  get samples(): number {
    return this.length === 0 ? 0 : this.last[this.length - 1]! + 1;
  }

  name(row: number): string {
    const at = 2 * row * this.step;
    if (this.step === 8) return hex64(this.ids, at).replace(/^0+(?=.)/, "");
    return viewOf(this.ids).getUint32(at, true).toString(16);
  }

  /** First sample of a chunk, and how many are in it. */
  span(row: number): [number, number] {
    const before = row === 0 ? -1 : this.last[row - 1]!;
    const isTile = before === this.last[row]!;
    return isTile ? [before, 1] : [before + 1, this.last[row]! - before];
  }
}

function isBefore(version: string, other: [number, number, number]): boolean {
  const parts = version.split(".").map((part) => parseInt(part, 10));
  for (let i = 0; i < 3; i++) {
    const part = parts[i] ?? 0;
    if (Number.isNaN(part) || part > other[i]!) return false;
    if (part < other[i]!) return true;
  }
  return false;
}

/** Sequences: items of each, where they begin. */
export class SequenceIndex {
  private constructor(
    private readonly items: Uint32Array,
    private readonly start: Uint32Array,
    private readonly last: Uint32Array,
  ) {}

  static readonly empty = new SequenceIndex(new Uint32Array(0), new Uint32Array(0), new Uint32Array(0));

  static parse(bytes: Bytes, what: string): SequenceIndex {
    const at = afterVersion(bytes, what);
    if ((bytes.length - at) % 12 !== 0) throw new FormatError(`${what} is no table of sequences`);
    const words = new Uint32Array(bytes.slice(at).buffer);
    const column = (n: number): Uint32Array => words.filter((_, i) => i % 3 === n);
    const found = new SequenceIndex(column(0), column(1), column(2));
    for (let i = 1; i < found.last.length; i++) if (found.last[i]! <= found.last[i - 1]!) throw new FormatError(`${what} does not ascend`);
    return found;
  }

  get length(): number {
    return this.last.length === 0 ? 0 : this.last[this.last.length - 1]! + 1;
  }

  /** The flat samples of a sequence: the first, and the one behind the last. */
  span(index: number): [number, number] {
    const row = rowOf(this.last, index);
    const items = this.items[row]!;
    const before = row === 0 ? -1 : this.last[row - 1]!;
    const first = this.start[row]! + (index - before - 1) * items;
    return [first, first + items];
  }
}

export interface Tiling {
  sample: number[];
  tile: number[];
}

/** Samples that are cut into tiles. */
export function parseTiles(bytes: Bytes, what: string): Map<number, Tiling> {
  // Old files have no version, and begin with the high byte of a count.
  const isOld = bytes[0] === 0;
  let at = isOld ? 0 : afterVersion(bytes, what);
  const view = viewOf(bytes);
  const next = (): number => {
    if (at + 8 > bytes.length) throw new FormatError(`${what} ends early`);
    at += 8;
    return u64(view, at - 8, what, !isOld);
  };
  const found = new Map<number, Tiling>();
  const count = next();
  if (count === 0) return found;
  const axes = next();
  check("axes", axes, what);
  check("tiles", count, what);
  const numbers = (): number[] => Array.from({ length: axes }, next);
  for (let i = 0; i < count; i++) {
    const index = next();
    const [sample, tile] = [numbers(), numbers()];
    if (tile.some((extent) => extent === 0)) throw new FormatError(`${what} has a tile without an extent`);
    found.set(index, { sample, tile });
  }
  return found;
}
