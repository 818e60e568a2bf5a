/** Rows that a condition may be true for, by the statistics of chunks that lie beside the dataset; after Python's `statistics`. */

import type { Tensor } from "../../reader/src";
import { MASK, P64, avalanche, folded, plainSums, secret, xxh3 } from "../../reader/src/xxh3";
import { parts, type Bound } from "./bound";
import { Num, isRun, kindOf, type Dtype, type Val } from "./columns";
import { MIRRORED, comparing } from "./numbers";
import type { Relation } from "./relations";
import { Stored } from "./stored";

/** Samples that are told of together; the last piece of a chunk may have fewer. */
const PIECE = 1 << 14;
const PIECE_BYTES = 48;
const MAGIC = "lbstat01";
const [HAS_NAN, HAS_VALUES] = [1, 2];

/** What is known of some samples: least and greatest value, and which remainders modulo 64 integers have. */
interface Piece {
  low: number | bigint;
  high: number | bigint;
  bits: bigint;
  empty: number;
  least: number;
  most: number;
  flags: number;
}

/** Pieces of a tensor, null where nothing is known, and the first row behind each. */
interface Known {
  ends: number[];
  pieces: (Piece | null)[];
}

const known = new WeakMap<Tensor, Promise<Known | null>>();

/** Stretches of rows that are left: all where nothing is known. */
export async function kept(relation: Relation, conditions: Bound[], signal?: AbortSignal): Promise<[number, number][]> {
  const all: [number, number][] = [[0, relation.length]];
  if (!(relation instanceof Stored) || relation.length <= PIECE || relation.places[0] !== 0 || !isRun(relation.places)) return all;
  const names = [...new Set(conditions.flatMap(askedOf))];
  const told = new Map<string, Known>();
  await Promise.all(names.map(async (name) => {
    const tensor = relation.tensor(name);
    if (!known.has(tensor)) known.set(tensor, read(tensor, signal));
    const found = await known.get(tensor)!.catch(() => null); // a cache: without it, chunks are read
    if (found !== null) told.set(name, found);
  }));
  if (!told.size) return all;
  const edges = [...new Set([...[...told.values()].flatMap(({ ends }) => ends), relation.length])].filter((end) => end <= relation.length).sort((a, b) => a - b);
  const found: [number, number][] = [];
  let start = 0;
  for (const end of edges) {
    const pieceOf = (name: string): Piece | null => {
      const own = told.get(name);
      return own === undefined ? null : (own.pieces[own.ends.findIndex((one) => one >= end)] ?? null);
    };
    const last = found[found.length - 1];
    if (conditions.every((one) => mayBe(one, pieceOf))) {
      if (last !== undefined && last[1] === start) last[1] = end;
      else found.push([start, end]);
    }
    start = end;
  }
  return found;
}

const askedOf = (node: Bound): string[] => (node.is === "logic" ? node.operands.flatMap(askedOf) : boundsOf(node)?.slice(0, 1) ?? []) as string[];

/** The column, the comparison and the constant of a condition that extremes may decide. */
function boundsOf(node: Bound): [name: string, sign: string, value: Val, isText: boolean] | null {
  if (node.is === "apply" && node.name === "ANY" && node.operands.length === 1) return boundsOf(parts(node)[0]!);
  if (node.is !== "apply" || node.operands.length !== 2) return null;
  const [left, right] = node.operands as [Bound, Bound];
  const [column, constant, sign] = left.is === "input" ? [left, right, node.name] : [right, left, MIRRORED[node.name] ?? ""];
  if (column.is !== "input" || constant.is !== "value" || !(sign in MIRRORED || (sign === "IN" && column === left))) return null;
  const { kind, dtype } = column.info;
  if (kind !== "text" && (kind !== "array" || dtype === null || dtype === "float16")) return null;
  return [column.name, sign, constant.value, kind === "text"];
}

/** Whether a condition may be true for one of some rows. */
function mayBe(node: Bound, pieceOf: (name: string) => Piece | null): boolean {
  if (node.is === "logic") return node.operator === "and" ? node.operands.every((one) => mayBe(one, pieceOf)) : node.operands.some((one) => mayBe(one, pieceOf));
  const bounds = boundsOf(node);
  const piece = bounds === null ? null : pieceOf(bounds[0]);
  if (bounds === null || piece === null) return true;
  const [, sign, value, isText] = bounds;
  const fits = isText ? textFits : numberFits;
  return sign === "IN" ? (value as Val[]).some((one) => fits("=", piece, one)) : fits(sign, piece, value);
}

function numberFits(sign: string, piece: Piece, value: Val): boolean {
  if (!(value instanceof Num)) return true;
  const isNan = (piece.flags & HAS_NAN) !== 0;
  if ((piece.flags & HAS_VALUES) === 0) return sign === "!=" && isNan;
  const { low, high } = piece;
  // A literal may be rounded to the precision of the column: both are looked at.
  const narrow = value.type === "float" ? Math.fround(value.value as number) : value.value;
  return [value.value, narrow].some((one) => {
    const is = (name: string, a: number | bigint): boolean => comparing(name)(a, one);
    if (sign === "=") return is("<=", low) && is(">=", high) && (!Number.isSafeInteger(one) || piece.bits === MASK || (piece.bits >> BigInt.asUintN(6, BigInt(one))) % 2n === 1n);
    if (sign === "!=") return is("!=", low) || is("!=", high) || isNan;
    return is(sign, sign.startsWith("<") ? low : high);
  });
}

const UTF8 = new TextEncoder();

function textFits(sign: string, piece: Piece, value: Val): boolean {
  if (typeof value !== "string") return true;
  const bytes = UTF8.encode(value);
  const first = new DataView(Uint8Array.from({ length: 8 }, (_, i) => bytes[i] ?? 0).buffer).getBigUint64(0);
  if (sign === "=") return piece.low <= first && piece.high >= first && piece.least <= bytes.length && piece.most >= bytes.length;
  return sign.startsWith("<") ? piece.low <= first : sign.startsWith(">") ? piece.high >= first : true;
}

// -- the file ---------------------------------------------------------------------------------------------------------

/** What is known of the chunks of a tensor, each found by a digest of its checksums. */
async function read(tensor: Tensor, signal?: AbortSignal): Promise<Known | null> {
  const { places, chunkEnds } = tensor;
  if (places === null || !tensor.isPlain || tensor.length <= PIECE) return null;
  const key = UTF8.encode(tensor.key);
  const bytes = await tensor.beside(`.lakebed/statistics-${xxh3(key)}`, signal);
  const begin = 12 + key.length;
  if (bytes === null || bytes.length < begin + 12 || new TextDecoder().decode(bytes.subarray(0, 8)) !== MAGIC) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (BigInt(`0x${xxh3(bytes.subarray(0, -8))}`) !== view.getBigUint64(bytes.length - 8, true) || view.getUint32(8, true) !== key.length || key.some((byte, i) => bytes[12 + i] !== byte)) return null;
  const count = view.getUint32(begin, true);
  const chunks = new Map<string, [at: number, pieces: number]>();
  for (let i = 0, at = begin + 4 + 24 * count; i < count; i++) {
    const entry = begin + 4 + 24 * i;
    const pieces = view.getUint32(entry + 16, true);
    chunks.set(view.getBigUint64(entry).toString(16) + " " + view.getBigUint64(entry + 8).toString(16), [at, pieces]);
    at += pieces * PIECE_BYTES;
  }
  const form = UTF8.encode(`${tensor.htype === "text" ? "None TEXT" : `${tensor.dtype} ARRAY`} ${tensor.chunkCompression ?? "None"}`);
  const found: Known = { ends: [], pieces: [] };
  let start = 0;
  for (let chunk = 0; chunk < chunkEnds.length; chunk++) {
    const stop = chunkEnds[chunk]! + 1;
    const own = chunks.get(digestOf(form, places.sizes[chunk]!, stop - start, places.sums.subarray(2 * places.sumsAt[chunk]!, 2 * places.sumsAt[chunk + 1]!)));
    for (let row = start, i = 0; row < stop; row += PIECE, i++) {
      found.ends.push(Math.min(stop, row + PIECE));
      found.pieces.push(own === undefined || i >= own[1] ? null : pieceAt(view, own[0] + i * PIECE_BYTES, tensor));
    }
    start = stop;
  }
  return found;
}

function pieceAt(view: DataView, at: number, tensor: Tensor): Piece {
  const kind = tensor.htype === "text" ? "u" : kindOf(tensor.dtype as Dtype);
  const number = (place: number): number | bigint => (kind === "f" ? view.getFloat64(place, true) : kind === "i" ? view.getBigInt64(place, true) : view.getBigUint64(place, true));
  const [, empty, least, most, flags] = [24, 28, 32, 36, 40].map((place) => view.getUint32(at + place, true)) as [number, number, number, number, number];
  return { low: number(at), high: number(at + 8), bits: view.getBigUint64(at + 16, true), empty, least, most, flags };
}

function digestOf(form: Uint8Array, size: number, count: number, sums: Uint32Array): string {
  const bytes = new Uint8Array(form.length + 16 + 4 * sums.length);
  const view = new DataView(bytes.buffer);
  bytes.set(form);
  view.setBigUint64(form.length, BigInt(size), true);
  view.setBigUint64(form.length + 8, BigInt(count), true);
  sums.forEach((word, i) => view.setUint32(form.length + 16 + 4 * i, word, true));
  return xxh128(bytes).map((word) => word.toString(16)).join(" ");
}

/** XXH3 of 128 bits of more than 16 bytes: the upper half and the lower one (xxHash 0.8.3). */
export function xxh128(bytes: Uint8Array): [bigint, bigint] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const { length } = bytes;
  const size = BigInt(length);
  let [low, high] = [(size * P64[0]) & MASK, 0n];
  if (length > 240) {
    const sums = plainSums(bytes);
    const merged = (start: bigint, key: number): bigint => avalanche((start + [0, 1, 2, 3].reduce((sum, i) => sum + folded(sums[2 * i]! ^ secret(key + 16 * i), sums[2 * i + 1]! ^ secret(key + 8 + 16 * i)), 0n)) & MASK);
    return [merged(~(size * P64[1]) & MASK, 117), merged(low, 11)];
  }
  const word = (at: number): bigint => view.getBigUint64(at, true);
  const mixed = (at: number, key: number): bigint => folded(word(at) ^ secret(key), word(at + 8) ^ secret(key + 8));
  const mix = (one: number, other: number, key: number): void => {
    low = ((low + mixed(one, key)) & MASK) ^ ((word(other) + word(other + 8)) & MASK);
    high = ((high + mixed(other, key + 16)) & MASK) ^ ((word(one) + word(one + 8)) & MASK);
  };
  if (length <= 128) for (let i = Math.floor((length - 1) / 32); i >= 0; i--) mix(16 * i, length - 16 * (i + 1), 32 * i);
  else {
    for (let at = 32; at < 160; at += 32) mix(at - 32, at - 16, at - 32);
    [low, high] = [avalanche(low), avalanche(high)];
    for (let at = 160; at <= length; at += 32) mix(at - 32, at - 16, at - 157);
    mix(length - 16, length - 32, 103);
  }
  return [(MASK + 1n - avalanche((low * P64[0] + high * P64[3] + size * P64[1]) & MASK)) & MASK, avalanche((low + high) & MASK)];
}
