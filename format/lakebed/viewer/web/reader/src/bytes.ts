/** Numbers in bytes, all little-endian; nothing is read beyond the end. */

import { FormatError } from "./errors";

export type Bytes = Uint8Array<ArrayBuffer>;

export const NO_BYTES: Bytes = new Uint8Array(0);

const UTF8 = new TextDecoder("utf-8", { fatal: true });
const HEX = Array.from({ length: 256 }, (_, n) => n.toString(16).padStart(2, "0"));

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Part of some bytes, if it is one. */
export function cut(bytes: Bytes, at: number, length: number, what: string): Bytes {
  if (!(Number.isSafeInteger(at) && Number.isSafeInteger(length) && at >= 0 && length >= 0 && length <= bytes.length - at))
    throw new FormatError(`${what}: ${length} bytes at ${at} leave its ${bytes.length} bytes`);
  return bytes.subarray(at, at + length);
}

/** Text in UTF-8. */
export function textOf(bytes: Uint8Array, what: string): string {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw new FormatError(`${what} is no UTF-8`);
  }
}

/** A number of 64 bits that is exact as a number of JavaScript. */
export function u64(view: DataView, at: number, what: string, littleEndian = true): number {
  const [low, high] = littleEndian ? [at, at + 4] : [at + 4, at];
  const upper = view.getUint32(high, littleEndian);
  if (upper > 0x1fffff) throw new FormatError(`${what} has a number beyond 2^53`);
  return upper * 2 ** 32 + view.getUint32(low, littleEndian);
}

/** Eight bytes as the hexadecimal digits of the number that they are. */
export function hex64(bytes: Uint8Array, at: number): string {
  let text = "";
  for (let i = 7; i >= 0; i--) text += HEX[bytes[at + i]!];
  return text;
}

/** Numbers of 32 bits, copied to where they are aligned. */
export function u32s(bytes: Bytes, at: number, count: number, what: string): Uint32Array<ArrayBuffer> {
  return new Uint32Array(cut(bytes, at, 4 * count, what).slice().buffer);
}

/** Numbers of 64 bits that are exact as numbers of JavaScript. */
export function u64s(bytes: Bytes, at: number, count: number, what: string): Float64Array {
  const words = u32s(bytes, at, 2 * count, what);
  const found = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    const high = words[2 * i + 1]!;
    if (high > 0x1fffff) throw new FormatError(`${what} has a number beyond 2^53`);
    found[i] = high * 2 ** 32 + words[2 * i]!;
  }
  return found;
}

/** Where the content of a file begins, behind the version of its writer: a length of one byte, and as many letters. */
export function afterVersion(bytes: Uint8Array, what: string): number {
  const length = bytes[0];
  if (length === undefined || length + 1 > bytes.length) throw new FormatError(`${what} ends before its version`);
  for (let i = 1; i <= length; i++) if (bytes[i]! < 0x20 || bytes[i]! > 0x7e) throw new FormatError(`${what} has no version`);
  return length + 1;
}
