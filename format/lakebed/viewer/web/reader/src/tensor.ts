/** One tensor of a version: where its samples lie, and what they are. */

import { NO_BYTES, cut, textOf, type Bytes } from "./bytes";
import { Cache } from "./cache";
import { Header, known } from "./chunk";
import { document, folderOf, type Info, type Version } from "./dataset";
import { FormatError, MissingError, UnsupportedError, check } from "./errors";
import { decodeSized } from "./lz4";
import { BLOCK, folderName, tensorKey, type Places } from "./manifest";
import { ChunkIndex, SequenceIndex, parseTiles, rowOf, type Tiling } from "./tables";
import { FIRST } from "./tree";
import { arrayOf, decode, isImage, isText, itemSize, numbers, product, zeros, type NumberArray, type Storing, type Value } from "./values";
import { xxh3 } from "./xxh3";

/** Chunks whose samples are read one by one are larger than this. */
const LARGE = 2 * BLOCK;
const CACHED = 128e6;
const AT_ONCE = 6;

/** A chunk that is here: its header, and its data, decompressed. */
interface Loaded {
  header: Header;
  data: Bytes;
}

const chunks = new Cache<Loaded>(CACHED, (chunk) => chunk.data.length + 1000);

/** Samples of one chunk, stored as they are: bytes of all, where each ends, and their shapes. */
export interface Run {
  /** First row, and how many there are. */
  row: number;
  count: number;
  data: Bytes;
  ends: Float64Array;
  shapes: Uint32Array;
  /** Null where only empty samples of unknown rank are in the chunk. */
  axes: number | null;
}

interface Index {
  chunks: ChunkIndex;
  tiles: Map<number, Tiling>;
  sequence: SequenceIndex | null;
  places: Places | null;
}

export class Tensor {
  readonly htype: string;
  readonly dtype: string | null;
  readonly isSequence: boolean;
  readonly isLink: boolean;
  readonly minShape: number[];
  readonly maxShape: number[];
  readonly sampleCompression: string | null;
  readonly chunkCompression: string | null;
  private readonly storing: Storing;
  private readonly found: Index | null;
  private marks: Tensor | null = null;
  private folders: Promise<Map<string, string>> | null = null;

  private constructor(
    private readonly version: Version,
    readonly name: string,
    readonly key: string,
    readonly meta: Info,
    readonly info: Info,
    readonly hidden: boolean,
    private readonly nulls: string | null,
    index: Index,
  ) {
    const text = (member: string): string | null => (typeof meta[member] === "string" ? meta[member] : null);
    const shape = (member: string): number[] => (Array.isArray(meta[member]) ? meta[member].map(Number) : []);
    this.htype = text("htype") ?? "generic";
    this.dtype = text("dtype");
    this.isSequence = meta.is_sequence === true;
    this.isLink = meta.is_link === true;
    [this.minShape, this.maxShape] = [shape("min_shape"), shape("max_shape")];
    [this.sampleCompression, this.chunkCompression] = [text("sample_compression"), text("chunk_compression")];
    this.storing = {
      htype: this.htype,
      dtype: this.dtype,
      isLink: this.isLink,
      sample: this.isLink ? null : this.sampleCompression,
      chunk: this.isLink ? null : this.chunkCompression,
      rank: this.maxShape.length,
    };
    this.found = index;
  }

  static async open(version: Version, name: string, key: string, nulls: string | null, hidden: boolean, signal?: AbortSignal): Promise<Tensor> {
    const meta = await document(version, `${key}/tensor_meta.json`, signal);
    if (meta === null) throw new FormatError(`version ${version.id} of ${version.source.place} has no ${key}/tensor_meta.json`);
    const [info, ids, tiles, sequence] = await Promise.all([
      document(version, `${key}/tensor_info.json`, signal),
      version.file(`${key}/chunks_index/unsharded`, signal),
      version.file(`${key}/tiles_index/unsharded`, signal),
      meta.is_sequence === true ? version.file(`${key}/sequence_index/unsharded`, signal) : null,
    ]);
    const index = ids === null ? ChunkIndex.empty : ChunkIndex.parse(ids, `${key}/chunks_index`);
    const places = version.manifest?.places(key) ?? null;
    if (places !== null && places.sizes.length !== index.length)
      throw new FormatError(
        `${key}: the manifest has the places of ${places.sizes.length} chunks, the tensor has ${index.length}`,
      );
    return new Tensor(version, name, key, meta, info ?? {}, hidden || meta.hidden === true, nulls, {
      chunks: index,
      tiles: tiles === null ? new Map() : parseTiles(tiles, `${key}/tiles_index`),
      sequence: meta.is_sequence !== true ? null : sequence === null ? SequenceIndex.empty : SequenceIndex.parse(sequence, `${key}/sequence_index`),
      places,
    });
  }

  private get index(): Index {
    return this.found!;
  }

  /** Rows: samples, or sequences of some. */
  get length(): number {
    return this.index.sequence?.length ?? this.flatLength;
  }

  private get flatLength(): number {
    const told = typeof this.meta.length === "number" ? this.meta.length : 0;
    return Math.min(told, this.index.chunks.samples);
  }

  get classNames(): string[] {
    const names = this.info.class_names;
    return Array.isArray(names) ? names.map(String) : [];
  }

  /** One row. */
  async at(row: number, signal?: AbortSignal): Promise<Value> {
    return (await this.rows(row, row + 1, signal))[0]!;
  }

  /** Rows from `start` to before `stop`; each chunk is fetched once. */
  async rows(start: number, stop: number, signal?: AbortSignal): Promise<Value[]> {
    this.checkRows(start, stop);
    const { sequence } = this.index;
    const missing = await this.missing(start, stop, signal);
    const wanted: number[] = [];
    for (let row = start; row < stop; row++) wanted.push(row);
    if (sequence === null) {
      const found = await this.samples(wanted.filter((row) => !missing?.has(row)), signal);
      return wanted.map((row) => (missing?.has(row) ? null : found.get(row)!));
    }
    const spans = wanted.map((row) => sequence.span(row));
    const flat: number[] = [];
    for (const [first, last] of spans) {
      if (last > this.flatLength) throw new FormatError(`${this.name} has sequences of more items than there are`);
      for (let item = first; item < last; item++) flat.push(item);
    }
    const items = await this.samples(flat, signal);
    return spans.map(([first, last], i) => {
      if (missing?.has(wanted[i]!)) return null;
      return { kind: "sequence", items: Array.from({ length: last - first }, (_, n) => items.get(first + n)!) };
    });
  }

  /** Whether `runs` reads it: samples lie in its chunks as they are. */
  get isPlain(): boolean {
    const { sample, chunk, isLink, htype } = this.storing;
    return !isLink && !this.isSequence && sample === null && (chunk === null || chunk === "lz4") && htype !== "polygon" && this.index.tiles.size === 0;
  }

  /** The last row of each chunk, where chunks count rows. */
  get chunkEnds(): Float64Array {
    return this.isSequence ? new Float64Array(0) : this.index.chunks.last;
  }

  /** What the manifest tells of the bytes of each chunk, which statistics of them are found by; null without one. */
  get places(): Places | null {
    return this.index.places;
  }

  /** A file of the dataset that is of no version, such as a cache; null where there is none. */
  async beside(key: string, signal?: AbortSignal): Promise<Bytes | null> {
    try {
      return await this.version.source.read(key, signal);
    } catch (error) {
      if (error instanceof MissingError) return null;
      throw error;
    }
  }

  /** Stretches of rows, as first and behind the last, of the whole chunks that hold some rows, which ascend. */
  stretches(rows: ArrayLike<number>): [start: number, stop: number][] {
    const { chunkEnds: ends } = this;
    const found: [number, number][] = [];
    for (let i = 0, chunk = 0; i < rows.length; i++) {
      while (ends[chunk]! < rows[i]!) chunk++;
      const [start, stop] = [chunk === 0 ? 0 : ends[chunk - 1]! + 1, Math.min(this.length, ends[chunk]! + 1)];
      const last = found[found.length - 1];
      if (last !== undefined && last[1] >= start) last[1] = stop;
      else found.push([start, stop]);
    }
    return found;
  }

  /** Rows from `start` to before `stop`, chunk by chunk, with no value made for each; of tensors that are `isPlain`. */
  async runs(start: number, stop: number, signal?: AbortSignal): Promise<Run[]> {
    const { last } = this.index.chunks;
    const rows: number[] = [];
    for (let row = rowOf(last, start); row < last.length && (row === 0 ? 0 : last[row - 1]! + 1) < stop; row++) rows.push(row);
    const found = new Array<Run>(rows.length);
    let next = 0;
    const work = async (): Promise<void> => {
      for (let at = next++; at < rows.length; at = next++) {
        const [begin, count] = this.index.chunks.span(rows[at]!);
        const { header, data } = await this.load(rows[at]!, count, signal);
        const [from, to] = [Math.max(0, start - begin), Math.min(count, stop - begin)];
        const spans = header.spans(from, to);
        const what = this.what(begin + from);
        if (header.isUnwritten(data.length)) throw new UnsupportedError(`${what} was never written`);
        if (spans.ends[to - from]! > data.length) throw new FormatError(`${what} leaves its chunk`);
        found[at] = { row: begin + from, count: to - from, data, ...spans };
      }
    };
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, rows.length) }, work));
    return found;
  }

  /** 1 for each row from `start` to before `stop` that is marked as null; null where none is. */
  async nullMask(start: number, stop: number, signal?: AbortSignal): Promise<Uint8Array | null> {
    const marked = await this.marked(signal);
    if (marked === null) return null;
    const end = Math.min(stop, marked.length);
    const mask = new Uint8Array(stop - start);
    for (const { row, data, ends, count } of await marked.runs(start, Math.max(start, end), signal))
      for (let i = 0; i < count; i++) for (let at = ends[i]!; at < ends[i + 1]!; at++) if (data[at] !== 0) mask[row - start + i] = 1;
    return mask.includes(1) ? mask : null;
  }

  get hasMarks(): boolean {
    return this.nulls !== null;
  }

  /** Rows as one array with a new first axis, where all have the largest shape; zeros for those without numbers, which are `missing`. Bytes of that length, `into`, are filled instead of new ones. */
  async column(start: number, stop: number, signal?: AbortSignal, into: Bytes | null = null): Promise<NumberArray & { missing: number[] }> {
    this.checkRows(start, stop);
    if (!this.isArray || this.isSequence || this.index.tiles.size > 0) throw new UnsupportedError(`${this.name} holds other things than arrays of one shape`);
    const { sample } = this.storing;
    const dtype = this.dtype ?? "uint8";
    const size = product(this.maxShape) * itemSize(dtype);
    check("sampleBytes", size * (stop - start), this.name);
    if (into !== null && into.length !== size * (stop - start)) throw new RangeError(`${into.length} bytes are no room for ${size * (stop - start)}`);
    let out = into;
    const without = new Set(await this.missing(start, stop, signal));
    const { last } = this.index.chunks;
    let next = stop > start ? rowOf(last, start) : last.length;
    const end = stop > start ? rowOf(last, stop - 1) : -1;
    const work = async (): Promise<void> => {
      for (let row = next++; row <= end; row = next++) {
        signal?.throwIfAborted();
        const [begin, count] = this.index.chunks.span(row);
        const [first, behind] = [Math.max(begin, start), Math.min(begin + count, stop)];
        const { header, data } = await this.load(row, count, signal);
        const isWhole = sample === null && header.allOf(size) && data.length >= count * size;
        if (isWhole && into === null && behind - first === stop - start) {
          out = data.subarray((first - begin) * size, (behind - begin) * size);
          continue;
        }
        out ??= new Uint8Array(size * (stop - start));
        if (header.isUnwritten(data.length)) {
          out.fill(0, (first - start) * size, (behind - start) * size);
          continue;
        }
        if (isWhole) out.set(data.subarray((first - begin) * size, (behind - begin) * size), (first - start) * size);
        for (let at = first; at < behind && !isWhole; at++) {
          const [from, to] = header.place(at - begin);
          const stored = cut(data, from, to - from, this.what(at));
          const bytes = sample === null ? stored : decodeSized(stored, this.what(at));
          if (bytes.length === size) out.set(bytes, (at - start) * size);
          else if (bytes.length === 0) {
            without.add(at);
            out.fill(0, (at - start) * size, (at + 1 - start) * size);
          } else throw new UnsupportedError(`${this.name} has samples of several shapes`);
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    const missing = [...without].map((row) => row - start).sort((a, b) => a - b);
    return { kind: "array", dtype, shape: [stop + start, ...this.maxShape], data: numbers(out ?? NO_BYTES, dtype), missing };
  }

  /** Shapes of rows, without their data: null where a row is null; of sequences the largest of their items, and how many. */
  async shapes(start: number, stop: number, signal?: AbortSignal): Promise<({ shape: number[]; items: number | null } | null)[]> {
    const missing = await this.missing(start, stop, signal);
    const { sequence } = this.index;
    const one = async (row: number): Promise<{ shape: number[]; items: number | null } | null> => {
      if (missing?.has(row)) return null;
      if (sequence === null) return { shape: await this.shapeAt(row, signal), items: null };
      const [first, last] = sequence.span(row);
      const shapes = await Promise.all(Array.from({ length: last - first }, (_, i) => this.shapeAt(first + i, signal)));
      return { shape: shapes.reduce((most, shape) => shape.map((extent, axis) => Math.max(extent, most[axis] ?? 0)), []), items: shapes.length };
    };
    return Promise.all(Array.from({ length: stop - start }, (_, i) => one(start + i)));
  }

  /** Return where rows lie, as text: rows of two versions that lie at the same places are equal. */
  async locations(signal?: AbortSignal): Promise<(row: number) => string> {
    const { chunks: index, sequence } = this.index;
    const paths = await Promise.all(Array.from({ length: index.length }, (_, row) => this.path(row, signal)));
    const marks = await (await this.marked(signal))?.locations(signal);
    const placeOf = (sample: number): string => {
      let row = rowOf(index.last, sample);
      let found = `${paths[row]} ${sample - index.span(row)[0]}`;
      while (index.last[row + 1] === sample) found += ` ${paths[++row]}`; // further tiles
      return found;
    };
    return (row) => {
      const [first, last] = sequence?.span(row) ?? [row, row + 1];
      const items = Array.from({ length: last - first }, (_, i) => placeOf(first + i));
      return `${items.join()} ${marks && row < this.marks!.length ? marks(row) : ""}`;
    };
  }

  private async marked(signal?: AbortSignal): Promise<Tensor | null> {
    if (this.nulls !== null) this.marks ??= await Tensor.open(this.version, this.nulls, this.nulls, null, true, signal);
    return this.marks;
  }

  private async shapeAt(sample: number, signal?: AbortSignal): Promise<number[]> {
    const tiling = this.index.tiles.get(sample);
    if (tiling !== undefined) return tiling.sample;
    if (isText(this.storing)) return [1];
    const row = rowOf(this.index.chunks.last, sample);
    const [begin, count] = this.index.chunks.span(row);
    const size = this.index.places?.sizes[row] ?? 0;
    const header = size > LARGE ? await this.header(row, count, size, signal) : (await this.load(row, count, signal)).header;
    return header.shape(sample - begin) ?? new Array<number>(this.maxShape.length).fill(0);
  }

  /** Whether samples are stored as arrays, not as texts or files. */
  private get isArray(): boolean {
    const { chunk, sample, htype } = this.storing;
    return !isText(this.storing) && htype !== "polygon" && [chunk, sample].every((one) => one === null || one === "lz4");
  }

  private checkRows(start: number, stop: number): void {
    if (!(Number.isSafeInteger(start) && Number.isSafeInteger(stop) && start >= 0 && start <= stop && stop <= this.length))
      throw new RangeError(`rows ${start} to ${stop} are not among the ${this.length} of ${this.name}`);
  }

  /** The rows that are marked as null. */
  private async missing(start: number, stop: number, signal?: AbortSignal): Promise<Set<number> | null> {
    const marked = await this.marked(signal);
    const end = Math.min(stop, marked?.length ?? 0);
    if (marked === null || end <= start) return null;
    const marks = await marked.rows(start, end, signal);
    return new Set(marks.flatMap((mark, i) => (mark !== null && mark.kind === "array" && mark.data.some(Boolean) ? [start + i] : [])));
  }

  private async samples(flat: number[], signal?: AbortSignal): Promise<Map<number, Value>> {
    const found = new Map<number, Value>();
    const byChunk = new Map<number, number[]>();
    for (const sample of flat) {
      const row = rowOf(this.index.chunks.last, sample);
      const others = byChunk.get(row);
      if (others === undefined) byChunk.set(row, [sample]);
      else others.push(sample);
    }
    const waiting = [...byChunk];
    const work = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const [row, members] = next;
        for (const [sample, value] of await this.inChunk(row, members, signal)) found.set(sample, value);
      }
    };
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, waiting.length) }, work));
    return found;
  }

  private what(sample: number): string {
    return `${this.version.source.place}, ${this.name}[${sample}]`;
  }

  private async inChunk(row: number, members: number[], signal?: AbortSignal): Promise<[number, Value][]> {
    const { chunks: index, places } = this.index;
    const [first] = members as [number];
    if (index.last[row + 1] === first && index.last[row] === first) return [[first, await this.tiled(row, first, signal)]];
    const [begin, count] = index.span(row);
    if (begin === first && count === 1 && this.index.tiles.has(first)) {
      const tiling = this.index.tiles.get(first)!;
      if (product(grid(tiling)) === 1 && tiling.sample.some((extent, i) => extent !== tiling.tile[i])) return [[first, await this.tiled(row, first, signal)]];
    }
    const size = places?.sizes[row] ?? 0;
    const isWorth = members.length === 1 && size > LARGE && this.storing.chunk === null;
    if (isWorth) return [[first, await this.alone(row, first, begin, count, size, signal)]];
    const loaded = await this.load(row, count, signal);
    // Aligned once, numbers of several bytes need no copies of their own.
    const width = this.isArray ? Math.min(8, itemSize(this.dtype ?? "uint8")) : 1;
    if (members.length > 1 && loaded.data.byteOffset % width !== 0) loaded.data = loaded.data.slice();
    const { header, data } = loaded;
    return members.map((sample) => [sample, this.valueIn(header, data, sample - begin, this.what(sample))]);
  }

  private valueIn(header: Header, data: Bytes, inside: number, what: string): Value {
    const { chunk } = this.storing;
    if (chunk !== null && chunk !== "lz4") return this.cropped(header, data, inside, what);
    const shape = header.shape(inside);
    if (header.isUnwritten(data.length) && shape !== null && !isText(this.storing)) return zeros(shape, this.dtype ?? "uint8", what);
    const [start, stop] = header.place(inside);
    if (stop > data.length) throw new FormatError(`${what} leaves its chunk`);
    return this.decoded(data.subarray(start, stop), shape, what);
  }

  private decoded(bytes: Bytes, shape: number[] | null, what: string): Value {
    const value = decode(bytes, shape, this.storing, what);
    return value !== null && value.kind === "array" && value.data.length === 0 && this.isNullable ? null : value;
  }

  /** Whether samples are single numbers of which some are missing: those are stored as empty ones. */
  get isNullable(): boolean {
    const most = this.maxShape.join();
    const cameAsList = /^(fixed_size_)?list\b/.test(String(this.info.logical_type ?? ""));
    return (most === "1" || most === "0") && this.minShape.join() === "0" && this.dtype !== null && !cameAsList;
  }

  /** An image of those that lie side by side in the one that the chunk is (format.md 5.4). */
  private cropped(header: Header, data: Bytes, inside: number, what: string): Value {
    const format = this.storing.chunk!;
    if (!isImage(format)) throw new UnsupportedError(`${what}: chunks compressed as ${format} are not read here`);
    let left = 0;
    let shape: number[] = [];
    for (let i = 0; i <= inside; i++) {
      shape = header.shape(i) ?? [];
      if (i < inside) left += shape.every((extent) => extent === 0) ? 0 : shape[1]!;
    }
    const dtype = this.dtype ?? "uint8";
    if (product(shape) === 0) return { kind: "array", dtype, shape, data: new Uint8Array(0) };
    const file = decode(data, shape, { ...this.storing, sample: format, chunk: null }, what);
    if (file === null || file.kind !== "file") throw new FormatError(`${what} has no image`);
    return { ...file, crop: [left, 0, shape[1]!, shape[0]!] };
  }

  // -- bytes --------------------------------------------------------------------------------------------------------

  private async path(row: number, signal?: AbortSignal): Promise<string> {
    const { chunks: index, places } = this.index;
    const name = index.name(row);
    if (places !== null) {
      const [version, key] = places.folders[places.folderOf[row]!]!;
      return `${folderOf(version)}${key}/chunks/${name}`;
    }
    this.folders ??= this.resolved(signal);
    return `${(await this.folders).get(name) ?? `${this.key}/chunks/`}${name}`;
  }

  /** The folders of chunks that are not in the first version: the nearest `chunk_set` decides (format.md 9.3). */
  private async resolved(signal?: AbortSignal): Promise<Map<string, string>> {
    const { source, tree, id } = this.version;
    const found = new Map<string, string>();
    if (id === FIRST) return found;
    const sets = await Promise.all(
      (await tree.ancestors(id)).map(async (version): Promise<[string, string]> => {
        try {
          const key = `${folderOf(version)}${this.key}/chunk_set`;
          return [version, textOf(await source.read(key, signal), key)];
        } catch (error) {
          if (error instanceof MissingError) return [version, ""];
          throw error;
        }
      }),
    );
    for (const [version, text] of sets)
      for (const entry of text === "" ? [] : text.split(",")) {
        const [name, commit, key] = entry.split(":") as [string, string?, string?];
        if (!found.has(name)) found.set(name, `${folderOf(folderName(commit ?? version))}${tensorKey(key ?? this.key)}/chunks/`);
      }
    return found;
  }

  /** Compare a whole chunk, or some blocks of it, with the checksums of the manifest. */
  private verify(bytes: Bytes, row: number, firstBlock: number, what: string): void {
    const { places } = this.index;
    if (places === null || places.sizes[row] === 0) return;
    const at = places.sumsAt[row]! + firstBlock;
    for (let block = 0; block * BLOCK < bytes.length; block++) {
      const low = places.sums[2 * (at + block)]!.toString(16).padStart(8, "0");
      const high = places.sums[2 * (at + block) + 1]!.toString(16).padStart(8, "0");
      if (xxh3(bytes.subarray(block * BLOCK, (block + 1) * BLOCK)) !== high + low) throw new FormatError(`${what} is damaged: its checksum is wrong`);
    }
  }

  private async load(row: number, count: number, signal?: AbortSignal): Promise<Loaded> {
    const { source } = this.version;
    const path = await this.path(row, signal);
    // What one caller no longer wants, another may be waiting for.
    return chunks.get(`${source.place}\0${path}\0${this.version.manifest === null ? this.version.id : ""}\0${count}`, async () => {
      const what = `${source.place}, chunk ${path}`;
      const size = this.index.places?.sizes[row] ?? 0;
      check("objectBytes", size, what);
      const file = await source.read(path);
      if (size > 0 && file.length !== size) throw new FormatError(`${what} has ${file.length} bytes, not ${size}`);
      this.verify(file, row, 0, what);
      const header = Header.parse(file, count, what);
      const data = file.subarray(header.dataAt);
      return { header, data: this.storing.chunk === "lz4" ? decodeSized(data, what) : data };
    });
  }

  /** One sample of a large chunk, of which no more is read than has to be. */
  private async alone(row: number, sample: number, begin: number, count: number, size: number, signal?: AbortSignal): Promise<Value> {
    const what = this.what(sample);
    const { layout } = this.index.places!;
    const words = layout === null ? new Uint32Array(0) : layout.words.subarray(layout.at[row], layout.at[row + 1]);
    if (words.length > 0) {
      const place = known(words, sample - begin, count, size, what);
      const bytes = await this.part(row, place.start, place.stop, size, place.sum, signal);
      return this.decoded(bytes, place.shape ?? (await this.shapeOf(row, count, sample - begin, size, signal)), what);
    }
    const header = await this.header(row, count, size, signal);
    const [start, stop] = header.place(sample - begin);
    const bytes = await this.part(row, header.dataAt + start, header.dataAt + stop, size, null, signal);
    return this.decoded(bytes, header.shape(sample - begin), what);
  }

  private async shapeOf(row: number, count: number, inside: number, size: number, signal?: AbortSignal): Promise<number[] | null> {
    return (await this.header(row, count, size, signal)).shape(inside);
  }

  private readonly headers = new Map<number, Promise<Header>>();

  private header(row: number, count: number, size: number, signal?: AbortSignal): Promise<Header> {
    let found = this.headers.get(row);
    if (found === undefined) {
      const read = async (): Promise<Header> => {
        const what = `a chunk of ${this.name}`;
        let bytes = await this.part(row, 0, Math.min(size, BLOCK), size, null);
        for (let need = Header.length(bytes, what); need === null || need > bytes.length; need = Header.length(bytes, what)) {
          if (bytes.length >= size) throw new FormatError(`${what} ends inside of its header`);
          bytes = await this.part(row, 0, Math.min(size, Math.max(need ?? 0, 4 * bytes.length)), size, null);
        }
        return Header.parse(bytes, count, what);
      };
      found = read();
      found.catch(() => this.headers.delete(row));
      this.headers.set(row, found);
    }
    signal?.throwIfAborted();
    return found;
  }

  /** A range of a chunk: checked by the sum of the sample, or with the blocks that it lies in. */
  private async part(row: number, start: number, stop: number, size: number, sum: number | null, signal?: AbortSignal): Promise<Bytes> {
    if (stop > size) throw new FormatError(`a sample of ${this.name} leaves its chunk`);
    if (stop <= start) return NO_BYTES;
    check("sampleBytes", stop - start, this.name);
    const path = await this.path(row, signal);
    const what = `${this.version.source.place}, chunk ${path}`;
    const from = sum === null ? Math.floor(start / BLOCK) * BLOCK : start;
    const to = sum === null ? Math.min(size, Math.ceil(stop / BLOCK) * BLOCK) : stop;
    const { bytes } = await this.version.source.range(path, from, to, signal);
    if (bytes.length !== to - from) throw new FormatError(`${what} ends early`);
    if (sum === null) this.verify(bytes, row, from / BLOCK, what);
    else if (parseInt(xxh3(bytes).slice(8), 16) !== sum) throw new FormatError(`${what} is damaged: the checksum of a sample is wrong`);
    return bytes.subarray(start - from, stop - from);
  }

  // -- tiles --------------------------------------------------------------------------------------------------------

  /** A sample that is cut into tiles, each in a chunk of its own (format.md 6.3): put together, or as files. */
  private async tiled(row: number, sample: number, signal?: AbortSignal): Promise<Value> {
    const what = this.what(sample);
    const tiling = this.index.tiles.get(sample);
    if (tiling === undefined) throw new FormatError(`${what} is cut into tiles, and nothing tells how`);
    if (this.isLink) throw new UnsupportedError(`${what} is a link of tiles, which is not read here`);
    const counts = grid(tiling);
    const total = product(counts);
    check("tiles", total, what);
    for (let i = 0; i < total; i++) if (this.index.chunks.last[row + i] !== sample) throw new FormatError(`${what} has not as many tiles as its shape asks for`);
    const dtype = this.dtype ?? "uint8";
    const isFile = isImage(this.storing.sample ?? this.storing.chunk);
    check("sampleBytes", isFile ? 0 : product(tiling.sample) * itemSize(dtype), what);
    const places = Array.from({ length: total }, (_, i) => cell(i, counts));
    const parts = new Array<Value>(total);
    let next = 0;
    const work = async (): Promise<void> => {
      for (let i = next++; i < total; i = next++) parts[i] = await this.tile(row + i, tiling, places[i]!, what, signal);
    };
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, total) }, work));
    if (isFile) {
      const tiles = parts.flatMap((value, i) => (value?.kind === "file" ? [{ at: places[i]!.map((n, axis) => n * tiling.tile[axis]!), value }] : []));
      return { kind: "tiles", shape: tiling.sample, dtype, tiles };
    }
    const whole = zeros(tiling.sample, dtype, what);
    parts.forEach((value, i) => {
      if (value?.kind === "array") paste(whole, value, places[i]!.map((n, axis) => n * tiling.tile[axis]!));
    });
    return whole;
  }

  private async tile(row: number, tiling: Tiling, at: number[], what: string, signal?: AbortSignal): Promise<Value> {
    const shape = at.map((n, axis) => Math.min(tiling.tile[axis]!, tiling.sample[axis]! - n * tiling.tile[axis]!));
    const { header, data } = await this.load(row, 1, signal);
    const told = header.shape(0);
    if (told !== null && told.join() !== shape.join()) throw new FormatError(`${what}: a tile has the shape [${told.join(", ")}], not [${shape.join(", ")}]`);
    const dtype = this.dtype ?? "uint8";
    const format = this.storing.sample ?? this.storing.chunk;
    if (data.length === 0) return isImage(format) ? null : zeros(shape, dtype, what);
    if (isImage(format)) return decode(data, shape, { ...this.storing, sample: format, chunk: null }, what);
    return arrayOf(this.storing.sample === "lz4" ? decodeSized(data, what) : data, shape, dtype, what);
  }
}

function grid(tiling: Tiling): number[] {
  return tiling.sample.map((extent, axis) => Math.max(1, Math.ceil(extent / tiling.tile[axis]!)));
}

function cell(number: number, counts: number[]): number[] {
  const place = new Array<number>(counts.length);
  for (let axis = counts.length - 1; axis >= 0; axis--) {
    place[axis] = number % counts[axis]!;
    number = Math.floor(number / counts[axis]!);
  }
  return place;
}

/** Copy an array into a larger one of its rank. */
function paste(whole: NumberArray, part: NumberArray, at: number[]): void {
  const axes = whole.shape.length;
  const run = part.shape[axes - 1] ?? 1;
  const rows = part.data.length / Math.max(1, run);
  for (let row = 0; row < rows; row++) {
    let [left, offset, stride] = [row, at[axes - 1] ?? 0, whole.shape[axes - 1] ?? 1];
    for (let axis = axes - 2; axis >= 0; axis--) {
      offset += ((left % part.shape[axis]!) + at[axis]!) * stride;
      left = Math.floor(left / part.shape[axis]!);
      stride *= whole.shape[axis]!;
    }
    (whole.data as Uint8Array).set(part.data.subarray(row * run, (row + 1) * run) as Uint8Array, offset);
  }
}

