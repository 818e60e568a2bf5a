/** Stored bytes of a sample to a value (format.md 5.3). */

import { NO_BYTES, textOf, viewOf, type Bytes } from "./bytes";
import { FormatError, UnsupportedError, check } from "./errors";
import { parseJson, type Json } from "./json";
import { decodeSized } from "./lz4";

export type Numbers =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | BigUint64Array
  | BigInt64Array
  | Float32Array
  | Float64Array;

/**
 * Numbers in C order. Booleans are 0 and 1, a `float16` is a number of 32 bits, a complex number two numbers.
 *
 * Arrays and files may lie in the memory of their chunk, as other samples do: copy before you change or transfer them.
 */
export interface NumberArray {
  kind: "array";
  dtype: string;
  shape: number[];
  data: Numbers;
}

/** A file as it is stored: an image, a film, a sound, a scan. */
export interface FileValue {
  kind: "file";
  /** Such as `jpeg`, `png`, `mp4`, `dcm`. */
  format: string;
  /** What browsers call it; empty where they do not know it. */
  mime: string;
  bytes: Bytes;
  shape: number[];
  dtype: string;
  /** The part of the image that is the sample, where a file holds several: left, top, width, height. */
  crop?: [number, number, number, number];
}

export type Value =
  | null
  | NumberArray
  | FileValue
  | { kind: "text"; text: string }
  | { kind: "json"; value: Json }
  | { kind: "list"; items: Json[] }
  | { kind: "polygons"; dtype: string; polygons: { shape: number[]; data: Numbers }[] }
  | { kind: "link"; address: string }
  | { kind: "sequence"; items: Value[] }
  | { kind: "tiles"; shape: number[]; dtype: string; tiles: { at: number[]; value: FileValue }[] };

const MIMES: { [format: string]: string } = {
  ...{ jpeg: "image/jpeg", png: "image/png", webp: "image/webp", gif: "image/gif", bmp: "image/bmp", ico: "image/x-icon" },
  ...{ mp4: "video/mp4", mkv: "video/x-matroska", avi: "", mp3: "audio/mpeg", wav: "audio/wav", flac: "audio/flac" },
};
/** Signatures of images that browsers draw, as a file may be another than its tensor says. */
const SIGNATURES: [string, number, string][] = [
  ["ffd8ff", 0, "image/jpeg"],
  ["89504e47", 0, "image/png"],
  ["47494638", 0, "image/gif"],
  ["57454250", 8, "image/webp"],
  ["6674797061766966", 4, "image/avif"],
  ["424d", 0, "image/bmp"],
];

/** What browsers call an image, by its first bytes; empty for others. */
export function sniffed(bytes: Uint8Array): string {
  const hex = Array.from(bytes.subarray(0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return SIGNATURES.find(([signature, at]) => hex.startsWith(signature, 2 * at))?.[2] ?? "";
}

const IMAGES = new Set(
  ("bmp dib eps fli gif ico im jpeg jpeg2000 msp mpo pcx png ppm sgi tga tiff webp wmf xbm dcm").split(" "),
);
export const isImage = (format: string | null): format is string => format !== null && IMAGES.has(format);

type View = { BYTES_PER_ELEMENT: number; new (buffer: ArrayBuffer, at: number, length: number): Numbers };

/** Bytes of a number, and the array of it. */
const ARRAYS: { [dtype: string]: [number, View] } = {
  bool: [1, Uint8Array],
  uint8: [1, Uint8Array],
  int8: [1, Int8Array],
  uint16: [2, Uint16Array],
  int16: [2, Int16Array],
  uint32: [4, Uint32Array],
  int32: [4, Int32Array],
  uint64: [8, BigUint64Array],
  int64: [8, BigInt64Array],
  float16: [2, Uint16Array],
  float32: [4, Float32Array],
  float64: [8, Float64Array],
  complex64: [8, Float32Array],
  complex128: [16, Float64Array],
};

function halves(words: Uint16Array): Float32Array {
  return Float32Array.from(words, (bits) => {
    const sign = bits & 0x8000 ? -1 : 1;
    const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  });
}

/** Bytes of a number; an error for dtypes that no array of JavaScript has. */
export function itemSize(dtype: string): number {
  const found = Object.hasOwn(ARRAYS, dtype) ? ARRAYS[dtype] : undefined;
  if (found === undefined) throw new UnsupportedError(`values of dtype ${JSON.stringify(dtype)} are not read here`);
  return found[0];
}

/** Numbers of little-endian bytes: in the same memory, where they are aligned there. */
export function numbers(bytes: Bytes, dtype: string): Numbers {
  const size = itemSize(dtype);
  if (bytes.length % size !== 0) throw new FormatError(`${bytes.length} bytes are no numbers of dtype ${dtype}`);
  const View = ARRAYS[dtype]![1];
  const { buffer, byteOffset } = bytes.byteOffset % View.BYTES_PER_ELEMENT === 0 ? bytes : bytes.slice();
  const found = new View(buffer, byteOffset, bytes.length / View.BYTES_PER_ELEMENT);
  return dtype === "float16" ? halves(found as Uint16Array) : found;
}

export function product(shape: number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}

/** What decides how samples of a tensor are stored. */
export interface Storing {
  htype: string;
  dtype: string | null;
  isLink: boolean;
  sample: string | null;
  chunk: string | null;
  rank: number;
}

/** Whether samples are stored as texts of some kind, which have no other shape. */
export function isText(storing: Storing): boolean {
  return storing.isLink || ["text", "json", "list", "tag"].includes(storing.htype);
}

/** Decode one sample; `shape` is null where its chunk does not tell. */
export function decode(stored: Bytes, shape: number[] | null, storing: Storing, what: string): Value {
  const { htype, sample } = storing;
  if (storing.isLink) return { kind: "link", address: textOf(stored, what) };
  const bytes = sample === "lz4" ? decodeSized(stored, what) : stored;
  if (htype === "text") return { kind: "text", text: textOf(bytes, what) };
  if (htype === "json") return { kind: "json", value: bytes.length ? parseJson(textOf(bytes, what), what) : {} };
  if (htype === "list" || htype === "tag") {
    const items = bytes.length ? parseJson(textOf(bytes, what), what) : [];
    if (!Array.isArray(items)) throw new FormatError(`${what} is no list`);
    return { kind: "list", items };
  }
  const found = shape ?? new Array<number>(storing.rank).fill(0);
  const dtype = storing.dtype ?? "uint8";
  if (sample !== null && sample !== "lz4") {
    if (bytes.length === 0) return emptyArray(found, dtype);
    return { kind: "file", format: sample, mime: sniffed(bytes) || (MIMES[sample] ?? ""), bytes, shape: found, dtype };
  }
  if (found.length === 0 && bytes.length === 0) return null;
  if (htype === "polygon") return polygons(bytes, found, dtype, what);
  return arrayOf(bytes, found, dtype, what);
}

export function emptyArray(shape: number[], dtype: string): NumberArray {
  return { kind: "array", dtype, shape: product(shape) === 0 ? shape : shape.map(() => 0), data: numbers(NO_BYTES, dtype) };
}

export function arrayOf(bytes: Bytes, shape: number[], dtype: string, what: string): NumberArray {
  const size = product(shape) * itemSize(dtype);
  if (size !== bytes.length) throw new FormatError(`${what} has ${bytes.length} bytes, and its shape [${shape.join(", ")}] asks for ${size}`);
  return { kind: "array", dtype, shape, data: numbers(bytes, dtype) };
}

/** Zeros, for what was never written. */
export function zeros(shape: number[], dtype: string, what: string): NumberArray {
  const size = product(shape) * itemSize(dtype);
  check("sampleBytes", size, what);
  return { kind: "array", dtype, shape, data: numbers(new Uint8Array(size), dtype) };
}

function polygons(bytes: Bytes, shape: number[], dtype: string, what: string): Value {
  if (bytes.length === 0) return { kind: "polygons", dtype, polygons: [] };
  const axes = shape[2] ?? 0;
  const view = viewOf(bytes);
  const count = bytes.length >= 2 ? view.getUint16(0, true) : 0;
  let at = 2 + 2 * count;
  if (at > bytes.length || axes === 0) throw new FormatError(`${what} is no list of polygons`);
  const found: { shape: number[]; data: Numbers }[] = [];
  for (let i = 0; i < count; i++) {
    const points = view.getUint16(2 + 2 * i, true);
    const length = points * axes * itemSize(dtype);
    if (length > bytes.length - at) throw new FormatError(`${what} ends inside of a polygon`);
    found.push({ shape: [points, axes], data: numbers(bytes.subarray(at, at + length), dtype) });
    at += length;
  }
  if (at !== bytes.length) throw new FormatError(`${what} goes on behind its polygons`);
  return { kind: "polygons", dtype, polygons: found };
}
