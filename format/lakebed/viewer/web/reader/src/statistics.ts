/** Statistics of chunks (design 040): extremes of the samples of each, in a file beside the dataset. */

import type { Tensor } from "./tensor";
import { xxh128, xxh3 } from "./xxh3";

/** Samples that are told of together; the last piece of a chunk may have fewer. */
export const PIECE = 1 << 14;
const PIECE_BYTES = 48;
const MAGIC = "lbstat01";
const UTF8 = new TextEncoder();

/** The least and the greatest value of some samples, and the remainders modulo 64 that integers have. */
export interface Piece {
  low: number | bigint;
  high: number | bigint;
  bits: bigint;
  /** Bytes of the shortest and of the longest text. */
  least: number;
  most: number;
  /** 1 where some values are NaN, 2 where some are not. */
  flags: number;
}

/** Pieces of a tensor, null where nothing is known, and the first row behind each. */
export interface Statistics {
  ends: number[];
  pieces: (Piece | null)[];
}

/** Read the statistics of a tensor; each chunk is found by a digest of its checksums. */
export async function statisticsOf(tensor: Tensor, signal?: AbortSignal): Promise<Statistics | null> {
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
  const found: Statistics = { ends: [], pieces: [] };
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
  const kind = tensor.htype === "text" ? "u" : tensor.dtype![0];
  const number = (place: number): number | bigint => (kind === "f" ? view.getFloat64(place, true) : kind === "i" ? view.getBigInt64(place, true) : view.getBigUint64(place, true));
  const [least, most, flags] = [32, 36, 40].map((place) => view.getUint32(at + place, true)) as [number, number, number];
  return { low: number(at), high: number(at + 8), bits: view.getBigUint64(at + 16, true), least, most, flags };
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
