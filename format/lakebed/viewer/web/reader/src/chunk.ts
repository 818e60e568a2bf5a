/** One chunk file: which bytes and which shape each sample has (format.md 5.1); and the words of a manifest that say the same. */

import { afterVersion, u32s, viewOf, type Bytes } from "./bytes";
import { FormatError, check } from "./errors";
import { rowOf } from "./tables";

/** What is known of the samples of a chunk, before its data is. */
export class Header {
  private constructor(
    readonly count: number,
    /** Where the data begins in the file. */
    readonly dataAt: number,
    /** Axes of the samples; null where only empty ones of unknown rank are here. */
    readonly axes: number | null,
    private readonly shapes: Uint32Array,
    private readonly shapeLast: Uint32Array,
    private readonly sizes: Uint32Array,
    private readonly starts: Float64Array,
    private readonly last: Uint32Array,
    /** Whether the places of samples are told; those of images side by side, and of tiles, are not. */
    readonly hasPlaces: boolean,
  ) {}

  /** How many bytes of a file its header takes, as far as the given first bytes tell; null if they are too few. */
  static length(bytes: Bytes, what: string): number | null {
    let at = afterVersion(bytes, what);
    const view = viewOf(bytes);
    if (at + 8 > bytes.length) return null;
    const [rows, columns] = [view.getInt32(at, true), view.getInt32(at + 4, true)];
    if (rows < 0 || columns < 0) throw new FormatError(`${what} is a damaged chunk`);
    at += 8 + 4 * rows * columns;
    check("objectBytes", at, what);
    if (at + 4 > bytes.length) return null;
    at += 4 + 12 * view.getUint32(at, true);
    check("objectBytes", at, what);
    return at;
  }

  static parse(bytes: Bytes, count: number, what: string): Header {
    const end = Header.length(bytes, what);
    if (end === null || end > bytes.length) throw new FormatError(`${what} ends inside of its header`);
    const view = viewOf(bytes);
    let at = afterVersion(bytes, what);
    const [rows, columns] = [view.getInt32(at, true), view.getInt32(at + 4, true)];
    check("axes", columns - 1, what);
    at += 8;
    const table = u32s(bytes, at, rows * columns, what);
    at += 4 * rows * columns;
    const places = view.getUint32(at, true);
    const positions = u32s(bytes, at + 4, 3 * places, what);
    const axes = rows === 0 || columns === 0 ? null : columns - 1;
    const shapeLast = new Uint32Array(axes === null ? 0 : rows);
    const shapes = new Uint32Array(axes === null ? 0 : rows * axes);
    if (axes !== null)
      for (let i = 0; i < rows; i++) {
        shapes.set(table.subarray(i * columns, i * columns + axes), i * axes);
        shapeLast[i] = table[i * columns + axes]!;
      }
    const [sizes, last, starts] = [new Uint32Array(places), new Uint32Array(places), new Float64Array(places)];
    let start = 0;
    for (let i = 0; i < places; i++) {
      sizes[i] = positions[3 * i]!;
      last[i] = positions[3 * i + 2]!;
      starts[i] = start;
      start += sizes[i]! * (last[i]! - (i === 0 ? -1 : last[i - 1]!));
    }
    for (const column of [last, shapeLast])
      for (let i = 0; i < column.length; i++)
        if (column[i]! >= count || (i > 0 && column[i]! <= column[i - 1]!)) throw new FormatError(`${what} describes other samples than its index`);
    const covered = places > 0 ? last[places - 1]! : shapeLast[shapeLast.length - 1];
    if (covered !== undefined && covered !== count - 1) throw new FormatError(`${what} holds ${covered + 1} samples, not ${count}`);
    return new Header(count, end, axes, shapes, shapeLast, sizes, starts, last, places > 0);
  }

  /** Bytes of a sample in the data: start and end. */
  place(sample: number): [number, number] {
    const row = rowOf(this.last, sample);
    if (row === this.last.length) return [0, 0];
    const before = row === 0 ? -1 : this.last[row - 1]!;
    const start = this.starts[row]! + (sample - before - 1) * this.sizes[row]!;
    return [start, start + this.sizes[row]!];
  }

  /** Shape of a sample; null where the chunk does not tell. */
  shape(sample: number): number[] | null {
    if (this.axes === null) return null;
    const row = rowOf(this.shapeLast, sample);
    if (row === this.shapeLast.length) return new Array<number>(this.axes).fill(0);
    const found = new Array<number>(this.axes);
    for (let axis = 0; axis < this.axes; axis++) found[axis] = this.shapes[row * this.axes + axis]!;
    return found;
  }

  /** Whether all samples have so many bytes. */
  allOf(size: number): boolean {
    return this.sizes.length === 1 && this.sizes[0] === size;
  }

  /** Where each of some samples ends in the data, the start of the first before them; and their shapes one after another. */
  spans(from: number, to: number): { ends: Float64Array; shapes: Uint32Array; axes: number | null } {
    const ends = new Float64Array(to - from + 1);
    const axes = this.axes ?? 0;
    const shapes = new Uint32Array(axes * (to - from));
    ends[0] = from < this.count ? this.place(from)[0] : 0;
    for (let sample = from, row = rowOf(this.last, from); sample < to; sample++) {
      while (row < this.last.length && this.last[row]! < sample) row++;
      ends[sample - from + 1] = ends[sample - from]! + (this.sizes[row] ?? 0);
    }
    for (let sample = from, row = rowOf(this.shapeLast, from); axes > 0 && sample < to; sample++) {
      while (row < this.shapeLast.length && this.shapeLast[row]! < sample) row++;
      for (let axis = 0; axis < axes && row < this.shapeLast.length; axis++) shapes[(sample - from) * axes + axis] = this.shapes[row * axes + axis]!;
    }
    return { ends, shapes, axes: this.axes };
  }

  /** Whether there is no data though the samples have extents: they read as zeros (format.md 5.5). */
  isUnwritten(dataLength: number): boolean {
    return dataLength === 0 && this.axes !== null && this.shape(0)!.every((extent) => extent > 0);
  }
}

const ALL_ALIKE = 0x80000000;
const SUMS = 0x40000000;

/** Where a sample lies in its file, and the lower half of its checksum, by the words of a manifest. */
export interface Known {
  start: number;
  stop: number;
  /** Null where the file of a sample tells it. */
  shape: number[] | null;
  sum: number | null;
}

export function known(words: Uint32Array, sample: number, count: number, size: number, what: string): Known {
  const form = words[0]!;
  const isAlike = (form & ALL_ALIKE) !== 0;
  const axes = form & 0x3fffffff;
  const width = 1 + axes;
  const rows = isAlike ? 1 : count;
  const end = 1 + rows * width;
  const hasSums = (form & SUMS) !== 0;
  if (words.length !== end + (hasSums ? count : 0)) throw new FormatError(`${what}: the manifest does not describe its ${count} samples`);
  let [total, before] = [0, 0];
  if (isAlike) {
    total = words[1]! * count;
    before = words[1]! * sample;
  } else {
    for (let i = 0; i < count; i++) {
      if (i === sample) before = total;
      total += words[1 + i * width]!;
    }
  }
  if (total > size) throw new FormatError(`${what}: the manifest promises ${total} bytes of samples in ${size}`);
  const row = 1 + (isAlike ? 0 : sample * width);
  const start = size - total + before;
  return {
    start,
    stop: start + words[row]!,
    shape: axes === 0 ? null : [...words.subarray(row + 1, row + width)],
    sum: hasSums ? words[end + sample]! : null,
  };
}
